package session

import (
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func at(version string) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	s.UID, s.ResourceVersion = "u", version
	return s
}

func TestWrittenKnowsAViewFromBeforeTheLastWrite(t *testing.T) {
	w := &memory{}
	if w.stale(at("5")) {
		t.Error("a session that was never written is not stale")
	}
	w.wrote(at("10"))
	w.wrote(at("9")) // an answer that was overtaken
	if !w.stale(at("9")) {
		t.Error("9 is older than 10")
	}
	if w.stale(at("10")) {
		t.Error("10 is what was written")
	}
	if len(w.records) != 0 {
		t.Error("what the cache has shown is not remembered any longer")
	}
	w.wrote(at("100"))
	if !w.stale(at("99")) {
		t.Error("versions are compared as numbers")
	}
	w.forget("u")
	if w.stale(at("1")) {
		t.Error("a session that is gone is forgotten")
	}
}
