package status

import (
	"testing"
)

func TestRuns(t *testing.T) {
	ordered := []Run{{}, {0, 7}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {10, 1}}
	for i, a := range ordered {
		if parsed, ok := ParseRun(a.String()); !ok || parsed != a {
			t.Errorf("%s is read as %s, %t", a, parsed, ok)
		}
		for j, b := range ordered {
			if a.Before(b) != (i < j) {
				t.Errorf("%s before %s is %t", a, b, a.Before(b))
			}
		}
	}
	for _, text := range []string{"", "1", "1.", ".1", "1.2.3", "one.two", " 1.2", "01.2", "1.2 "} {
		if r, ok := ParseRun(text); ok {
			t.Errorf("%q is read as %s", text, r)
		}
	}
}
