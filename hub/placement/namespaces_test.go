package placement

import "testing"

func TestNamespaces(t *testing.T) {
	t.Parallel()
	if (Namespaces{}).Has("") || NewNamespaces().Has("a") {
		t.Error("an empty set has a namespace")
	}
	set := NewNamespaces("desktops", "lab-1")
	for name, want := range map[string]bool{"desktops": true, "lab-1": true, "lab": false, "1": false, "": false} {
		if set.Has(name) != want {
			t.Errorf("Has(%q) is %v", name, !want)
		}
	}
	if set != NewNamespaces("desktops", "lab-1") {
		t.Error("equal sets differ")
	}
}
