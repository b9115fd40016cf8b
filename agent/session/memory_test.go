package session

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func remembered(uid types.UID) *memory {
	var all Reconciler
	return all.memoryOf(&api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{UID: uid}})
}

func TestMemoryIsOfOneAssignment(t *testing.T) {
	var all Reconciler
	first := all.memoryOf(&api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1"}})
	if again := all.memoryOf(&api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1"}}); again != first {
		t.Error("lost between two passes")
	}
	if next := all.memoryOf(&api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "2"}}); next == first {
		t.Error("the next assignment of that name remembers the last one's children")
	}
	all.memories.Delete(types.NamespacedName{Namespace: "n", Name: "a"})
	if _, kept := all.memories.Load(types.NamespacedName{Namespace: "n", Name: "a"}); kept {
		t.Error("kept after the assignment is gone")
	}
}

func TestANewAttemptForgetsEarlierFailures(t *testing.T) {
	m := remembered("a")
	m.ended = lastEnd{times: 4}
	m.begin(0)
	if m.ended.times != 4 {
		t.Error("the same attempt drops its record")
	}
	m.begin(1)
	if m.ended.times != 0 {
		t.Errorf("a higher attempt remembers: %+v", m)
	}
}

func TestAClaimIsTakenForOneAtATime(t *testing.T) {
	var m mounts
	claim := types.NamespacedName{Namespace: "n", Name: "home"}
	if other, _ := m.acquire(claim, "a", noon); other != "" {
		t.Errorf("a free claim is %s's", other)
	}
	if other, wait := m.acquire(claim, "b", noon.Add(time.Second)); other != "a" || wait != children.CacheDelay-time.Second {
		t.Errorf("claimed by %q, which counts for %s", other, wait)
	}
	if other, _ := m.acquire(claim, "a", noon.Add(2*time.Second)); other != "" {
		t.Error("refused to its own session")
	}
	if other, _ := m.acquire(claim, "b", noon.Add(2*time.Second+children.CacheDelay)); other != "" {
		t.Error("it never expires")
	}
	if len(m.byClaim) != 1 {
		t.Errorf("%d claims remembered", len(m.byClaim))
	}
}
