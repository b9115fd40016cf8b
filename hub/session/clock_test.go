package session

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// idleReport is what the agent reports of a desktop that it has stopped after 2 minutes.
func idleReport() *v1alpha1.SessionAssignment {
	a := reports(v1alpha1.AssignmentActive, 1, "hash")
	a.Status.ObservedGeneration, a.Status.TimeUsed = 1, "2m"
	a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodReady, Status: no, Reason: v1alpha1.ReasonSuspended}}
	return a
}

// Somebody sets the hub's clock an hour forward, or a replica leads whose clock is
// ahead: no session ends by that while its member is heard of, and none is charged.
func TestHubsClockEndsNothingAndChargesNothing(t *testing.T) {
	h, clock := placedInMemory(t)
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Timeout = "30m" })
	clock.SetTime(clock.Now().Add(time.Hour))
	s := h.pass()
	h.Expect(s.Status.Placement.Idle).To(BeFalse())
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseRunning))
	h.Expect(h.heard()).To(BeEmpty())

	h.edit(suspended)
	s = h.pass()
	h.Expect(s.Status.Placement.Idle).To(BeTrue())
	mirror(s, &v1alpha1.TemplateSpec{}, idleReport(), true, "https://url", clock.Now())
	h.Expect(s.Status.TimeUsed).To(Equal(v1alpha1.Duration("2m0s")), "what the agent counted")
	h.edit(func(stored *v1alpha1.VDISession) { stored.Status = s.Status; toBeResumed(stored) })
	h.Expect(h.pass().Status.Placement.Idle).To(BeFalse(), "it has 28 minutes left")
}

// While the member is away nobody else keeps the time.
func TestHubsClockEndsASessionWhoseMemberIsAway(t *testing.T) {
	h, clock := placedInMemory(t)
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Timeout = "30m" })
	clock.SetTime(clock.Now().Add(time.Hour))
	h.fleet.away = true
	s := h.pass()
	h.Expect(s.Status.Placement.Idle).To(BeTrue())
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseFailed))
	h.Expect(h.heard()).To(ContainElement(v1alpha1.EventExpired))
}

// An account of the time used lowers the hub's only if it is complete.
func TestAgentsAccountReplacesTheHubs(t *testing.T) {
	since := metav1.NewTime(testNow)
	for _, c := range []struct {
		name   string
		stored bool
		change func(*v1alpha1.VDISession, *v1alpha1.SessionAssignment)
		want   v1alpha1.Duration
	}{
		{"the desktop has stopped", true, func(*v1alpha1.VDISession, *v1alpha1.SessionAssignment) {}, "2m0s"},
		{"the agent has not stored that it is to stop", false, func(*v1alpha1.VDISession, *v1alpha1.SessionAssignment) {}, "1h0m0s"},
		{"its status is of an earlier spec", true, func(_ *v1alpha1.VDISession, a *v1alpha1.SessionAssignment) { a.Status.ObservedGeneration = 0 }, "1h0m0s"},
		{"its run is on", true, func(_ *v1alpha1.VDISession, a *v1alpha1.SessionAssignment) { a.Status.RunningSince = &since }, "1h0m0s"},
		{"it is to run again", true, func(s *v1alpha1.VDISession, _ *v1alpha1.SessionAssignment) { s.Status.Placement.Idle = false }, "1h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, a := sessionWith(placedAt(here, 1)), idleReport()
			s.Status.Placement.Idle, s.Status.TimeUsed = true, "1h0m0s"
			c.change(s, a)
			takeUsed(s, a, c.stored)
			NewWithT(t).Expect(s.Status.TimeUsed).To(Equal(c.want))
		})
	}
}

// A session that is moved is charged what the agent counted.
func TestStoppedRunIsChargedByTheAgentsAccount(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.SessionAssignment)
		want   v1alpha1.Duration
	}{
		{"it has told it", func(*v1alpha1.SessionAssignment) {}, "2m0s"},
		{"its run was on when it told last", func(a *v1alpha1.SessionAssignment) { a.Status.RunningSince = &metav1.Time{Time: testNow} }, "1h0m0s"},
		{"it never told", func(a *v1alpha1.SessionAssignment) { a.Status.TimeUsed = "" }, "1h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, a := sessionWith(), idleReport()
			startRun(s, testNow.Truncate(time.Second))
			c.change(a)
			endStopped(s, a, testNow.Truncate(time.Second).Add(time.Hour))
			NewWithT(t).Expect(s.Status.TimeUsed).To(Equal(c.want))
			NewWithT(t).Expect(s.Status.RunningSince).To(BeNil())
		})
	}
}

// A status that was to be held back for seconds is not held back for the hour by
// which the clock was set back.
func TestClockThatIsSetBackHoldsNothingBack(t *testing.T) {
	s := sessionWith(placedAt(here, 1))
	s.Status.Phase, s.Status.Placement.PlacementTime = v1alpha1.PhaseCreating, metav1.NewTime(testNow)
	NewWithT(t).Expect(holdBack(s, s, testNow)).To(Equal(settling))
	NewWithT(t).Expect(holdBack(s, s, testNow.Add(-time.Hour))).To(BeZero())
}

// setForward is a clock whose wall somebody has set forward since the process began.
type setForward struct {
	*clocktesting.FakePassiveClock
	by time.Duration
}

func (c *setForward) Now() time.Time { return c.FakePassiveClock.Now().Add(c.by) }

func TestRecordsOfHomesOutliveAClockThatIsSetForward(t *testing.T) {
	c := &setForward{FakePassiveClock: clocktesting.NewFakePassiveClock(testNow)}
	r := &HomeReconciler{Sessions: &Reconciler{Clock: c}}
	g := NewWithT(t)
	g.Expect(r.now()).To(BeTemporally("==", testNow))
	c.by = time.Hour
	g.Expect(r.now()).To(BeTemporally("==", testNow))
	c.SetTime(testNow.Add(time.Minute))
	g.Expect(r.now()).To(BeTemporally("==", testNow.Add(time.Minute)))
	c.by = -time.Hour
	g.Expect(r.now()).To(BeTemporally("==", testNow.Add(time.Minute-time.Hour)), "set back: it is kept for longer")
}
