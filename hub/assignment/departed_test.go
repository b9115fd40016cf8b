package assignment

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestADepartedSessionIsRememberedUntilEveryMemberHasConfirmed(t *testing.T) {
	g := NewWithT(t)
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.ReleasingAt(sessiontest.Elsewhere, 4))
	var d Departures
	var requested []mcreconcile.Request
	d.listen(func(r mcreconcile.Request) { requested = append(requested, r) })
	d.Observe(s, noneGone)
	g.Expect(requested).To(HaveLen(2), "it is withdrawn from both members")

	key := assignmentOf(s)
	for member, epoch := range map[types.UID]int64{sessiontest.Here: 5, sessiontest.Elsewhere: 4} {
		uid, upTo, ok := d.of(key, member)
		g.Expect(ok).To(BeTrue())
		g.Expect(uid).To(Equal(s.UID))
		g.Expect(upTo).To(Equal(epoch))
		g.Expect(d.in(member)).To(ConsistOf(key))
	}
	d.stopped(key, sessiontest.Here)
	_, _, ok := d.of(key, sessiontest.Here)
	g.Expect(ok).To(BeFalse())
	g.Expect(d.in(sessiontest.Elsewhere)).To(ConsistOf(key))
	d.stopped(key, sessiontest.Elsewhere)
	g.Expect(d.by).To(BeEmpty())
}

func TestReleasedAndUnplacedSessionsAreNoDepartures(t *testing.T) {
	g := NewWithT(t)
	var d Departures
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	d.Release(s.UID)
	d.Observe(s, noneGone)
	g.Expect(d.by).To(BeEmpty())
	_, left := d.released.Load(s.UID)
	g.Expect(left).To(BeFalse(), "nothing is left of a session that is gone")
	d.Observe(sessiontest.With(), noneGone)
	g.Expect(d.by).To(BeEmpty())

	d.Release(s.UID)
	d.Keep(s.UID) // removing the finalizer failed, and then another client removed it
	d.Observe(s, noneGone)
	g.Expect(d.by).To(HaveLen(1))
}

func TestTheMemoryForDepartedSessionsIsBounded(t *testing.T) {
	g := NewWithT(t)
	d := Departures{limit: 3}
	named := func(i int, member types.UID) *v1alpha1.VDISession {
		return sessiontest.With(sessiontest.PlacedAt(member, 5), func(s *v1alpha1.VDISession) { s.UID = types.UID(fmt.Sprint("u", i)) })
	}
	for i := range 2 {
		d.Observe(named(i, sessiontest.Elsewhere), noneGone)
	}
	for i := range 5 {
		d.Observe(named(10+i, sessiontest.Here), noneGone)
	}
	g.Expect(d.by).To(HaveLen(3))
	elsewhereIsGone := func(member types.UID) bool { return member == sessiontest.Elsewhere }
	d.Observe(named(20, sessiontest.Here), elsewhereIsGone)
	g.Expect(d.by).To(HaveLen(2), "a member that was removed confirms nothing")
	g.Expect(d.in(sessiontest.Here)).To(HaveLen(2))
}

func noneGone(types.UID) bool { return false }

func assignmentOf(s *v1alpha1.VDISession) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
}

// The steps are specified by the state that a member reports, at an older, the same and a
// newer epoch than that of its last assignment.
func TestStepsOfADepartedSession(t *testing.T) {
	for state, want := range map[v1alpha1.AssignmentState]string{
		v1alpha1.AssignmentActive:   "Withdraw 5|Withdraw 5|Orphan 6",
		v1alpha1.AssignmentStopping: "Withdraw 5|Withdraw 5|Orphan 6",
		v1alpha1.AssignmentStopped:  "Withdraw 5|Forget 5|Forget 6",
		v1alpha1.AssignmentRefused:  "Withdraw 5|Forget 5|Forget 6",
	} {
		got := ""
		for epoch := int64(4); epoch <= 6; epoch++ {
			a := &v1alpha1.SessionAssignment{}
			a.Spec.Epoch, a.Status.State = epoch, state
			next, upTo := planDeparted(5, a)
			got += fmt.Sprintf("|%s %d", next, upTo)
		}
		if got[1:] != want {
			t.Errorf("%s: got %s, want %s", state, got[1:], want)
		}
	}
	if next, upTo := planDeparted(5, nil); next != Withdraw || upTo != 5 {
		t.Errorf("an order may be on its way to a member that reports nothing: %s %d", next, upTo)
	}
}
