package session

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// The hub's clock is set an hour forward, or a replica whose clock is ahead leads: that
// neither ends nor charges a session whose member is reachable.
func TestHubsClockEndsNothingAndChargesNothing(t *testing.T) {
	h, clock := placedInMemory(t)
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Timeout = "30m" })
	clock.SetTime(clock.Now().Add(time.Hour))
	s := h.pass()
	h.Expect(s.Status.Placement.Idle).To(BeFalse())
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseRunning))
	h.Expect(h.events()).To(BeEmpty())

	h.edit(suspended)
	s = h.pass()
	h.Expect(s.Status.Placement.Idle).To(BeTrue())
	status.Mirror(s, &v1alpha1.TemplateSpec{}, sessiontest.StoppedReport(), true, "https://url", clock.Now())
	h.Expect(s.Status.TimeUsed).To(Equal(v1alpha1.Duration("2m0s")), "what the agent counted")
	h.edit(func(stored *v1alpha1.VDISession) { stored.Status = s.Status; toBeResumed(stored) })
	h.Expect(h.pass().Status.Placement.Idle).To(BeFalse(), "it has 28 minutes left")
}

// While the member is unreachable, only the hub measures the time.
func TestHubsClockEndsASessionWhoseMemberIsAway(t *testing.T) {
	h, clock := placedInMemory(t)
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Timeout = "30m" })
	clock.SetTime(clock.Now().Add(time.Hour))
	h.fleet.away = true
	s := h.pass()
	h.Expect(s.Status.Placement.Idle).To(BeTrue())
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseFailed))
	h.Expect(h.events()).To(ContainElement(v1alpha1.EventExpired))
}
