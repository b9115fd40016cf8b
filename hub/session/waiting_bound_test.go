package session

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

// distinct is a request that nobody else makes.
func distinct(namespace, user string, n int) *question {
	q := asks("browser")
	q.request.Namespace, q.request.User = namespace, user
	q.request.Resources = placement.Resources{"cpu": int64(100_000_000 + n)}
	return q
}

// TestUserCannotMultiplyTheLockRoundsOfACapacityReport: 10,000 distinct requests of
// one user were 10,000 rounds.
func TestUserCannotMultiplyTheLockRoundsOfACapacityReport(t *testing.T) {
	f := &rooms{free: map[types.UID]map[string]int64{sessiontest.Here: {"browser": 0}}}
	r := lineOf(f)
	for i := range 10_000 {
		r.waitFor(fmt.Sprint("s", i), "ann", 0, distinct("desktops", "ann", i))
	}
	r.called(roomIn(sessiontest.Here))
	t.Logf("%d rounds of the fleet's lock for one capacity report, with 10,000 distinct requests of one user", f.asked)
	if f.asked > 100 {
		t.Errorf("%d rounds of the fleet's lock", f.asked)
	}
}

// TestBatchOfChangesTakesTheLockAFewTimes however many users and namespaces make
// distinct requests, and asks every one of them in the end.
func TestBatchOfChangesTakesTheLockAFewTimes(t *testing.T) {
	f := &rooms{free: map[types.UID]map[string]int64{sessiontest.Here: {"browser": 0}}}
	r := lineOf(f)
	const users = 100
	for i := range users * classesPerUser {
		user := fmt.Sprint("user", i/classesPerUser)
		s := sessiontest.With(func(s *v1alpha1.VDISession) {
			s.Namespace, s.Name, s.Spec.User = fmt.Sprint("ns", i%50), fmt.Sprint("s", i), user
		})
		r.wish(&pass{session: s}, distinct(s.Namespace, user, i))
	}
	news := func(member types.UID) *news {
		n := newNews()
		n.note(roomIn(member))
		return n.read()
	}
	w := wave{of: news(sessiontest.Here), number: r.waiting().begin()}
	nobody := func(reconcile.Request) {}
	if more := r.spread(w, nobody); !more || f.asked != classesABatch {
		t.Fatalf("the first batch took %d rounds, more: %v", f.asked, more)
	}
	// Something else changes before all were asked: all are asked about both.
	w = wave{of: news(sessiontest.Elsewhere).over(w.of), number: r.waiting().begin()}
	batches := 1
	for r.spread(w, nobody) {
		batches++
	}
	if want := (users*classesPerUser + classesABatch - 1) / classesABatch; batches != want {
		t.Errorf("%d batches, want %d", batches, want)
	}
	both := 0
	for _, members := range f.of {
		if len(members) == 2 {
			both++
		}
	}
	if both != users*classesPerUser {
		t.Errorf("%d classes were asked about both changes, want each of %d", both, users*classesPerUser)
	}
}

// TestRequestsBeyondTheBoundAreRecheckedAndSaySo: they are not called, they are
// looked at again by time, and come in once others are gone.
func TestRequestsBeyondTheBoundAreRecheckedAndSaySo(t *testing.T) {
	f := &rooms{free: map[types.UID]map[string]int64{sessiontest.Here: {"browser": 1}}}
	r := lineOf(f)
	for i := range classesPerUser {
		r.waitFor(fmt.Sprint("s", i), "ann", 0, distinct("desktops", "ann", i))
	}
	p := &pass{session: sessiontest.With(func(s *v1alpha1.VDISession) { s.Name, s.UID = "beyond", "uid-beyond" })}
	beyond := distinct("desktops", "ann", classesPerUser)
	want := "no member fits; it is rechecked every 5m0s at the latest and not when capacity is reported, since 16 distinct requests of user ann in namespace desktops are waiting before it: delete sessions, or ask for the same resources and placement as others"
	if got := r.rechecked(p, "no member fits", beyond); got != want {
		t.Errorf("it says %q", got)
	}
	r.wish(p, beyond)
	if p.again <= 0 || p.again > DefaultLookAfter {
		t.Errorf("it is rechecked after %s", p.again)
	}
	if got := r.called(roomIn(sessiontest.Here)); len(got) != classesPerUser || slices.Contains(got, "beyond") {
		t.Errorf("called %v", got)
	}
	if got := r.rechecked(p, "no member fits", distinct("desktops", "ann", 0)); got != "no member fits" {
		t.Errorf("one that asks what another asks says %q", got)
	}
	if got := r.rechecked(&pass{session: sessiontest.With(func(s *v1alpha1.VDISession) { s.Spec.User = "ben" })}, "no member fits", distinct("desktops", "ben", 1)); got != "no member fits" {
		t.Errorf("another user's says %q", got)
	}
	r.waiting().strike(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "desktops", Name: "s0"}}, false, sessiontest.Now)
	r.wish(p, beyond)
	if got := r.called(roomIn(sessiontest.Here)); !slices.Contains(got, "beyond") {
		t.Errorf("called %v after there is a place", got)
	}
}
