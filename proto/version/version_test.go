package version

import "testing"

// TestHighest negotiates between this version and synthetic earlier and later
// ones.
func TestHighest(t *testing.T) {
	ours := Supported()
	next := Range{Min: ours.Min, Max: ours.Max + 1}
	for name, c := range map[string]struct {
		a, b Range
		want int32
		ok   bool
	}{
		"equal":                           {ours, ours, ours.Max, true},
		"one end supports the next too":   {ours, next, ours.Max, true},
		"the other end does":              {next, ours, ours.Max, true},
		"both support the next":           {next, next, next.Max, true},
		"one end dropped this version":    {ours, Range{next.Max, next.Max}, 0, false},
		"the other end did":               {Range{next.Max, next.Max}, ours, 0, false},
		"ranges that overlap in part":     {Range{1, 3}, Range{2, 5}, 3, true},
		"an end that supports none of it": {ours, Range{5, 4}, 0, false},
	} {
		got, ok := c.a.Highest(c.b)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %d, %v; want %d, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func TestContains(t *testing.T) {
	r := Range{Min: 2, Max: 3}
	for version, want := range map[int32]bool{1: false, 2: true, 3: true, 4: false} {
		if r.Contains(version) != want {
			t.Errorf("%d: %v", version, !want)
		}
	}
}

func TestFirstMissing(t *testing.T) {
	if got := FirstMissing([]string{"a", "b"}, []string{"a"}); got != "b" {
		t.Errorf("missing: %q", got)
	}
	if got := FirstMissing([]string{"a"}, []string{"b", "a"}); got != "" {
		t.Errorf("none is missing, not %q", got)
	}
}
