package memory

import (
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func at(version string) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	s.UID, s.ResourceVersion = "u", version
	return s
}

func TestStaleDetectsAViewFromBeforeTheLastWrite(t *testing.T) {
	w := &Memory{}
	if w.Stale(at("5")) {
		t.Error("a session that was never written is not stale")
	}
	w.Wrote(at("10"))
	w.Wrote(at("9")) // a response that a later one has overtaken
	if !w.Stale(at("9")) {
		t.Error("9 is older than 10")
	}
	if w.Stale(at("10")) {
		t.Error("10 is what was written")
	}
	if len(w.records) != 0 {
		t.Error("what the cache has shown is not remembered any longer")
	}
	w.Wrote(at("100"))
	if !w.Stale(at("99")) {
		t.Error("versions are compared as numbers")
	}
	w.Forget("u")
	if w.Stale(at("1")) {
		t.Error("a session that is gone is forgotten")
	}
}
