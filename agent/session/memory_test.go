package session

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func remembered(uid types.UID) *memory {
	var all memories
	return all.of(&api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{UID: uid}})
}

func TestRetriesComeEverLater(t *testing.T) {
	want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
	for before, wait := range want {
		if got := retryAfter(before); got != wait {
			t.Errorf("after %d failures: %s, want %s", before, got, wait)
		}
	}
	if got := retryAfter(1000); got != lastRetry {
		t.Errorf("after 1000 failures: %s, want %s", got, lastRetry)
	}
}

func TestRefusalIsNotTriedBeforeItsTime(t *testing.T) {
	m, problem := remembered("a"), observe.Problem{Reason: api.ReasonApplyFailed, Message: "no"}
	_, first := m.refuse(kindPod, 1, problem, noon)
	if got, wait := m.refusedUntil(kindPod, 1, noon.Add(time.Second)); got == nil || wait != first-time.Second {
		t.Errorf("a second later: %v, %s", got, wait)
	}
	if got, _ := m.refusedUntil(kindPod, 2, noon.Add(time.Second)); got != nil {
		t.Error("a new generation was not tried")
	}
	if got, _ := m.refusedUntil(kindPod, 1, noon.Add(first)); got != nil {
		t.Error("not tried when its time came")
	}
	if _, again := m.refuse(kindPod, 1, problem, noon.Add(time.Second)); again != first-time.Second {
		t.Errorf("met again before its time, the wait moved to %s", again)
	}
	if _, second := m.refuse(kindPod, 1, problem, noon.Add(first)); second != 2*first {
		t.Errorf("the second refusal waits %s, want %s", second, 2*first)
	}
}

func TestRepairsOfAFightComeEverLater(t *testing.T) {
	m, now := remembered("a"), noon
	for i, want := range []time.Duration{0, firstRetry, 2 * firstRetry} {
		if got := m.mayRepair(kindService, now); got != want {
			t.Errorf("repair %d waits %s, want %s", i, got, want)
		}
		if want > 0 {
			now = now.Add(want)
			if got := m.mayRepair(kindService, now); got != 0 {
				t.Errorf("repair %d still waits %s when its time came", i, got)
			}
		}
	}
	if got := m.mayRepair(kindService, now.Add(time.Hour)); got != 0 {
		t.Errorf("an hour later a repair waits %s", got)
	}
	if got := m.mayRepair(kindService, now.Add(time.Hour+firstRetry)); got != 0 {
		t.Errorf("the fight of an hour ago still counts: %s", got)
	}
}

func TestWhatWasMadeIsBelievedForAWhile(t *testing.T) {
	m, pod := remembered("a"), &corev1.Pod{}
	m.made[kindPod] = making{object: pod, at: noon}
	if got, left := m.madeRecently(kindPod, noon.Add(time.Second)); got != pod || left != trustTime-time.Second {
		t.Errorf("a second later: %v for %s", got, left)
	}
	if got, _ := m.madeRecently(kindPod, noon.Add(trustTime)); got != nil {
		t.Error("believed for ever")
	}
}

func TestMemoryIsOfOneAssignment(t *testing.T) {
	var all memories
	first := all.of(&api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1"}})
	if again := all.of(&api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1"}}); again != first {
		t.Error("forgotten between two passes")
	}
	if next := all.of(&api.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "2"}}); next == first {
		t.Error("the next assignment of that name remembers the last one's children")
	}
	all.forget(types.NamespacedName{Namespace: "n", Name: "a"})
	if len(all.byKey) != 0 {
		t.Error("kept after the assignment is gone")
	}
}

func TestAnotherAttemptForgetsWhatWentWrong(t *testing.T) {
	m := remembered("a")
	m.refuse(kindPod, 1, observe.Problem{Reason: api.ReasonApplyFailed}, noon)
	m.mayRepair(kindService, noon)
	m.ended = lastEnd{times: 4}
	m.begin(0)
	if len(m.refused) != 1 || len(m.repairs) != 1 || m.ended.times != 4 {
		t.Error("the same attempt forgets")
	}
	m.begin(1)
	if len(m.refused) != 0 || len(m.repairs) != 0 || m.ended.times != 0 {
		t.Errorf("a higher attempt remembers: %+v", m)
	}
}

func TestAClaimIsTakenForOneAtATime(t *testing.T) {
	var m mounts
	claim := types.NamespacedName{Namespace: "n", Name: "home"}
	if other, _ := m.take(claim, "a", noon); other != "" {
		t.Errorf("a free claim is %s's", other)
	}
	if other, wait := m.take(claim, "b", noon.Add(time.Second)); other != "a" || wait != trustTime-time.Second {
		t.Errorf("taken from %q, to be believed for %s", other, wait)
	}
	if other, _ := m.take(claim, "a", noon.Add(2*time.Second)); other != "" {
		t.Error("taken from itself")
	}
	if other, _ := m.take(claim, "b", noon.Add(2*time.Second+trustTime)); other != "" {
		t.Error("believed for ever")
	}
	if len(m.byClaim) != 1 {
		t.Errorf("%d claims remembered", len(m.byClaim))
	}
}
