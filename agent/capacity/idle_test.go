package capacity

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// running returns an assignment that is to run, at generation 2, which is observed.
func running(change func(*v1alpha1.SessionAssignment)) *v1alpha1.SessionAssignment {
	a := stored("u", 2, v1alpha1.ModeRunning)
	a.Status.ObservedGeneration = 2
	change(a)
	return a
}

func expired(a *v1alpha1.SessionAssignment) {
	a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodReady, Reason: v1alpha1.ReasonTimeExpired}}
}

func failed(attempt int64) func(*v1alpha1.SessionAssignment) {
	return func(a *v1alpha1.SessionAssignment) { a.Status.Failure = &v1alpha1.Failure{Attempt: attempt} }
}

func TestWhichAssignmentsHoldASlot(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1alpha1.SessionAssignment)
		idle   bool
	}{
		{"running", func(*v1alpha1.SessionAssignment) {}, false},
		{"suspended", func(a *v1alpha1.SessionAssignment) { a.Spec.RunState = v1alpha1.ModeSuspended }, true},
		{"suspended, and nothing observed yet", func(a *v1alpha1.SessionAssignment) {
			a.Spec.RunState, a.Status.ObservedGeneration = v1alpha1.ModeSuspended, 1
		}, true},
		{"failed permanently", failed(0), true},
		{"failed permanently, with a changed spec", func(a *v1alpha1.SessionAssignment) {
			failed(0)(a)
			a.Status.ObservedGeneration = 1
		}, true},
		{"to be retried", func(a *v1alpha1.SessionAssignment) { failed(0)(a); a.Spec.Attempt = 1 }, false},
		{"out of time", expired, true},
		{"out of time by an earlier spec", func(a *v1alpha1.SessionAssignment) {
			expired(a)
			a.Status.ObservedGeneration = 1
		}, false},
		{"stopping", func(a *v1alpha1.SessionAssignment) { a.Status.State = v1alpha1.AssignmentStopping }, true},
	} {
		if got := AssignmentOf(running(tc.change)).Idle; got != tc.idle {
			t.Errorf("%s: idle %t, want %t", tc.name, got, tc.idle)
		}
	}
}

func TestWhatRunsAgainCountsFromTheReportThatStoredNames(t *testing.T) {
	for name, before := range map[string]*v1alpha1.SessionAssignment{
		"suspended":          running(func(a *v1alpha1.SessionAssignment) { a.Spec.RunState = v1alpha1.ModeSuspended }),
		"out of time":        running(expired),
		"failed permanently": running(failed(0)),
	} {
		t.Run(name, func(t *testing.T) {
			w := watching(cacheHolding{})
			h := w.assignmentHandler()
			h.OnAdd(before, true)
			sequence, slots := w.shown(t)
			if slots != 4 {
				t.Fatalf("%d slots while it is idle", slots)
			}
			// The status is still the earlier one when the order is stored.
			resumed := before.DeepCopy()
			resumed.Generation++
			resumed.Spec.RunState, resumed.Spec.Attempt = v1alpha1.ModeRunning, 1
			if next := w.Stored(resumed); next != sequence+1 {
				t.Errorf("counted from report %d, want %d", next, sequence+1)
			}
			if got, slots := w.shown(t); got != sequence+1 || slots != 3 {
				t.Errorf("report %d with %d slots", got, slots)
			}
			h.OnUpdate(nil, before)
			if _, slots := w.shown(t); slots != 3 {
				t.Errorf("%d slots after the cache showed what it was before", slots)
			}
			h.OnUpdate(nil, resumed)
			if _, slots := w.shown(t); slots != 3 {
				t.Errorf("%d slots after the cache showed it with its old status", slots)
			}
		})
	}
}

func TestNodeReady(t *testing.T) {
	w := watching(cacheHolding{})
	if w.Node("b").Known {
		t.Error("a node that does not exist is known")
	}
	for _, want := range []bool{true, false, true} {
		// Cordoned, so that it is closed whether or not it is ready.
		n := with(machine("b", 1000, 1), func(n *Node) { n.Open, n.State = false, observe.Node{Known: true, Ready: want} })
		w.update(func(m *Model) { m.SetNode(n) })
		if got := w.Node("b"); got != (observe.Node{Known: true, Ready: want}) {
			t.Errorf("%+v, want ready %t", got, want)
		}
	}
	w.update(func(m *Model) { m.DeleteNode("b") })
	if w.Node("b") != (observe.Node{}) {
		t.Error("a node that is gone is known")
	}
}
