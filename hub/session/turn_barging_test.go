package session

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

// newcomer is a session that is reconciled now.
func newcomer(name, user string, priority int32) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(sessiontest.Now)}}
	s.Spec.User, s.Spec.Placement.Priority = user, priority
	return s
}

func TestCapacityThatBecomesFreeIsNotTakenOutOfTurn(t *testing.T) {
	f := &rooms{free: map[types.UID]map[string]int64{sessiontest.Here: {"browser": 1}}}
	r := lineOf(f)
	for i := range 3 {
		r.waitFor(fmt.Sprint("burst", i), "ann", 0, asks("browser"))
	}
	last := newcomer("burst2", "ann", 0)
	last.CreationTimestamp = metav1.NewTime(sessiontest.Now.Add(-time.Minute))
	outOfTurn := func(s *v1alpha1.VDISession, want bool, when string) {
		t.Helper()
		if got := r.outOfTurn(s, asks("browser")); got != want {
			t.Errorf("%s: %s comes out of its turn: %t, want %t", when, s.Name, got, want)
		}
	}
	outOfTurn(last, false, "nothing has changed, so that nobody is called")

	r.news().note(roomIn(sessiontest.Here))
	outOfTurn(last, true, "room was reported and the first are not called yet")
	outOfTurn(newcomer("new", "ann", 0), true, "room was reported and the first are not called yet")
	outOfTurn(newcomer("high", "ann", 7), false, "it has the highest priority")

	w := wave{of: r.news().read(), number: r.waiting().begin()}
	outOfTurn(last, true, "the class has not been asked yet")
	var called []string
	for r.spread(w, func(req reconcile.Request) { called = append(called, req.Name) }) {
	}
	outOfTurn(last, true, "the first are called and not decided on yet")
	for _, name := range called {
		r.waiting().answered(requestFor(newcomer(name, "ann", 0)))
	}
	outOfTurn(last, false, "those that were called have had their turn and left the room")
}
