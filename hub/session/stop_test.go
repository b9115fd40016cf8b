package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// placedInMemory returns a hub whose session is placed in "eu" and runs.
func placedInMemory(t *testing.T) (*hubInMemory, *clocktesting.FakePassiveClock) {
	t.Helper()
	h := newHubInMemory(t)
	clock := clocktesting.NewFakePassiveClock(sessiontest.Now.Truncate(time.Second))
	h.Clock = clock
	h.pass()
	h.edit(func(s *v1alpha1.VDISession) {
		sessiontest.Ready(s)
		placedBy := s.Status.Placement
		*placedBy = v1alpha1.Placement{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 1, Run: 1}
		s.Status.Epoch = 1
		status.StartRun(s, clock.Now())
	})
	h.pass()
	h.Expect(h.stored().Status.Phase).To(Equal(v1alpha1.PhaseRunning))
	h.events()
	h.fleet.placed, h.fleet.released = nil, 0
	return h, clock
}

// pass reconciles twice, and requires that the second time writes nothing.
func (h *hubInMemory) pass() *v1alpha1.VDISession {
	_, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	once := h.stored()
	_, err = h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	twice := h.stored()
	h.Expect(twice.ResourceVersion).To(Equal(once.ResourceVersion), "a second pass writes: %+v\nthen %+v", once.Status, twice.Status)
	return twice
}

// edit changes the session's spec and status, as other clients do.
func (h *hubInMemory) edit(change func(*v1alpha1.VDISession)) {
	s := h.stored()
	change(s)
	status := *s.Status.DeepCopy()
	h.Expect(h.api.Update(context.Background(), s)).To(Succeed())
	s.Status = status
	h.Expect(h.api.Status().Update(context.Background(), s)).To(Succeed())
}

// events returns the reasons of the events since its last call.
func (h *hubInMemory) events() []string {
	var out []string
	for ch := h.Recorder.(*events.FakeRecorder).Events; len(ch) > 0; {
		out = append(out, strings.Fields(<-ch)[1])
	}
	return out
}

func (h *hubInMemory) condition(name string) string {
	c := meta.FindStatusCondition(h.stored().Status.Conditions, name)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason + ": " + c.Message
}

func suspended(s *v1alpha1.VDISession)   { s.Spec.OperatingMode = v1alpha1.ModeSuspended }
func toBeResumed(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeRunning }
func hasFailed(s *v1alpha1.VDISession) {
	sessiontest.Condition(v1alpha1.ConditionProgressing, sessiontest.No, v1alpha1.ReasonImagePull)(s)
}

// outOfTime gives a session the state in which its agent has reported that its time is over.
func outOfTime(s *v1alpha1.VDISession) {
	s.Spec.Timeout, s.Status.TimeUsed, s.Status.RunningSince = "10m", "20m0s", nil
}

func TestDesktopThatIsNotToRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		cause func(*v1alpha1.VDISession)
		event string
		phase v1alpha1.SessionPhase
		fix   func(*v1alpha1.VDISession)
		back  string
	}{
		{"suspended", suspended, v1alpha1.EventSuspended, v1alpha1.PhasePending, toBeResumed, v1alpha1.EventResumed},
		{"its time is over", outOfTime, v1alpha1.EventExpired, v1alpha1.PhaseFailed,
			func(s *v1alpha1.VDISession) { s.Spec.Timeout = "1h" }, v1alpha1.EventResumed},
		{"its time is over, and then there is no limit", outOfTime, v1alpha1.EventExpired, v1alpha1.PhaseFailed,
			func(s *v1alpha1.VDISession) { s.Spec.Timeout = "" }, v1alpha1.EventResumed},
		{"failed permanently", hasFailed, v1alpha1.EventFailed, v1alpha1.PhaseFailed,
			func(s *v1alpha1.VDISession) { s.Spec.Attempt = 1 }, v1alpha1.EventRetried},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, clock := placedInMemory(t)
			clock.SetTime(clock.Now().Add(20 * time.Minute))
			h.edit(c.cause)
			s := h.pass()
			h.Expect(s.Status.Placement.Idle).To(BeTrue())
			h.Expect(s.Status.Phase).To(Equal(c.phase))
			h.Expect(s.Status.TimeUsed).To(Equal(v1alpha1.Duration("20m0s")))
			h.Expect(s.Status.RunningSince).To(BeNil())
			h.Expect(h.events()).To(Equal([]string{c.event}))
			h.Expect(h.fleet.resumed).To(BeEmpty())

			clock.SetTime(clock.Now().Add(time.Hour))
			h.edit(c.fix)
			s = h.pass()
			h.Expect(s.Status.Placement.Idle).To(BeFalse())
			h.Expect(s.Status.Placement.Run).To(Equal(int64(2)))
			h.Expect(s.Status.Placement.Epoch).To(Equal(int64(1)))
			h.Expect(s.Status.Attempt).To(Equal(s.Spec.Attempt))
			h.Expect(s.Status.TimeUsed).To(Equal(v1alpha1.Duration("20m0s")), "its time stood still")
			h.Expect(h.condition(v1alpha1.ConditionAssigned)).To(HavePrefix("False/Sending"))
			h.Expect(h.condition(v1alpha1.ConditionPodReady)).To(BeEmpty())
			h.Expect(h.condition(v1alpha1.ConditionProgressing)).To(BeEmpty())
			h.Expect(h.fleet.resumed).To(Equal([][2]int64{{1, 2}}))
			h.Expect(h.fleet.placed).To(BeEmpty())
			h.Expect(h.events()).To(Equal([]string{c.back}))
		})
	}
}

func TestSessionIsReconciledAgainAtItsDeadlines(t *testing.T) {
	h, clock := placedInMemory(t)
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Timeout = "10m" })
	again := func() time.Duration {
		result, err := h.reconcile()
		h.Expect(err).NotTo(HaveOccurred())
		return result.RequeueAfter
	}
	h.Expect(again()).To(Equal(8 * time.Minute))
	clock.SetTime(clock.Now().Add(8 * time.Minute))
	h.Expect(again()).To(Equal(2 * time.Minute))
	h.Expect(h.condition(v1alpha1.ConditionReady)).To(And(HavePrefix("True/ExpiringSoon: its time of 10m ends at"), ContainSubstring("raise spec.timeout")))
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventExpiringSoon}))
	clock.SetTime(clock.Now().Add(time.Minute))
	h.Expect(again()).To(Equal(time.Minute))
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Timeout = "10m1s" })
	h.Expect(again()).To(Equal(time.Minute + time.Second))
	h.Expect(h.condition(v1alpha1.ConditionReady)).To(HavePrefix("True/ExpiringSoon: its time of 10m1s"))
	h.Expect(h.events()).To(BeEmpty(), "once")
	clock.SetTime(clock.Now().Add(time.Minute + time.Second))
	h.Expect(again()).To(BeZero())
	h.Expect(h.stored().Status.Placement.Idle).To(BeFalse(), "only the agent reports that it is over")
	h.edit(func(s *v1alpha1.VDISession) { status.EndRun(s, clock.Now()) })
	h.Expect(again()).To(BeZero())
	h.Expect(h.stored().Status.Placement.Idle).To(BeTrue())
	h.Expect(h.stored().Status.ExpirationTime.Time).To(BeTemporally("==", clock.Now()))
}

func TestSessionThatFindsNoCapacityToResume(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*hubInMemory)
		message string
	}{
		{"no member has any", func(h *hubInMemory) { h.fleet.nowhere = true }, "no capacity to resume it: 2 clusters: 2 lack cpu"},
		{"its member is away", func(h *hubInMemory) { h.fleet.away, h.fleet.other = true, true }, "no capacity to resume it: eu lacks cpu"},
		{"its home is there", func(h *hubInMemory) {
			h.fleet.other = true
			h.edit(func(s *v1alpha1.VDISession) {
				s.Status.Home = &v1alpha1.SessionHome{ClusterName: "eu", ClusterUID: sessiontest.Here, ClaimName: "claim"}
			})
		}, "no capacity to resume it: eu lacks cpu; its home is there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := placedInMemory(t)
			h.edit(suspended)
			h.pass()
			h.fleet.full = true
			c.prepare(h)
			h.edit(toBeResumed)
			s := h.pass()
			h.Expect(s.Status.Placement.Idle).To(BeTrue())
			h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhasePending))
			h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(Equal("False/NoCapacityToResume: " + c.message))
			h.Expect(h.events()).To(Equal([]string{v1alpha1.EventSuspended, v1alpha1.EventWaiting}))

			h.edit(suspended)
			s = h.pass()
			h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(HavePrefix("True/Placed"))
			h.Expect(s.Status.Message).To(HavePrefix("suspended"))
			h.Expect(h.fleet.released).NotTo(BeZero())

			h.fleet.full, h.fleet.away = false, false
			h.edit(toBeResumed)
			h.Expect(h.pass().Status.Placement.Idle).To(BeFalse())
		})
	}
}

func TestCapacityThatIsReportedWhileASessionMoves(t *testing.T) {
	h, _ := placedInMemory(t)
	h.edit(suspended)
	h.pass()
	h.edit(toBeResumed)
	h.fleet.full, h.fleet.frees = true, true // and Place finds capacity in the same member
	s := h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("eu"))
	h.Expect(s.Status.Placement.Idle).To(BeFalse(), "it runs again where it is")
	h.Expect(h.fleet.resumed).To(HaveLen(2))
}

func TestSessionThatMovesToResume(t *testing.T) {
	h, _ := placedInMemory(t)
	h.edit(suspended)
	h.pass()
	h.fleet.full, h.fleet.other, h.fleet.released = true, true, 0
	h.edit(toBeResumed)
	s := h.pass()
	h.Expect(s.Status.Placement).To(BeNil())
	h.Expect(s.Status.Releasing).To(Equal([]v1alpha1.Release{{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 1}}))
	h.Expect(s.Status.URL).To(BeEmpty())
	h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(Equal("False/Releasing: waiting until eu has confirmed that nothing of it runs"))
	h.Expect(h.fleet.placed).To(Equal([]int64{2}), "capacity is reserved before anything is released")
	h.Expect(h.fleet.released).To(BeZero(), "and kept")

	h.edit(func(s *v1alpha1.VDISession) { status.ConfirmStopped(s, sessiontest.Here, 1) })
	s = h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
	h.Expect(s.Status.Placement.Epoch).To(Equal(int64(2)))
	h.Expect(s.Status.Placement.Idle).To(BeFalse())
}

func TestSessionThatIsSuspendedAgainWhileItMovesKeepsNoCapacity(t *testing.T) {
	h, _ := placedInMemory(t)
	h.edit(suspended)
	h.pass()
	h.fleet.full, h.fleet.other = true, true
	h.edit(toBeResumed)
	h.pass()
	h.edit(suspended)
	h.pass()
	h.Expect(h.fleet.released).NotTo(BeZero())
	h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(HavePrefix("False/Suspended"))
}

func TestCapacityOfAResumeThatIsNotWritten(t *testing.T) {
	sessions := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "vdisessions"}
	for _, c := range []struct {
		name     string
		answer   error
		moves    bool
		released int
	}{
		{"a conflict", apierrors.NewConflict(sessions, "mine", errors.New("changed")), false, 1},
		{"a conflict, and it would have moved", apierrors.NewConflict(sessions, "mine", errors.New("changed")), true, 1},
		{"it is unknown whether it was written", errors.New("connection reset"), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := placedInMemory(t)
			h.edit(suspended)
			h.pass()
			h.edit(toBeResumed)
			h.fleet.full, h.fleet.other, h.fleet.released = c.moves, c.moves, 0
			h.answer = c.answer
			_, _ = h.reconcile()
			h.Expect(h.fleet.released).To(Equal(c.released))
			h.Expect(h.stored().Status.Placement.Idle).To(BeTrue())
			h.answer = nil
			_, err := h.reconcile()
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(h.stored().Status.Placement == nil || h.stored().Status.Placement.Run == 2).To(BeTrue())
		})
	}
}

// setTemplateImage sets the image of the template, and returns its new revision.
func (h *hubInMemory) setTemplateImage(image string) string {
	template := &v1alpha1.VDITemplate{}
	template.Name = "browser"
	h.Expect(h.api.Get(context.Background(), types.NamespacedName{Name: "browser"}, template)).To(Succeed())
	template.Spec.Image = image
	h.Expect(h.api.Update(context.Background(), template)).To(Succeed())
	revision, err := v1alpha1.RevisionOf(&template.Spec)
	h.Expect(err).NotTo(HaveOccurred())
	return revision
}

func TestRevisionOfARun(t *testing.T) {
	h, _ := placedInMemory(t)
	old := h.stored().Status.TemplateRevision
	revision := h.setTemplateImage("browser:2")
	h.edit(suspended)
	h.pass()
	h.edit(toBeResumed)
	h.Expect(h.pass().Status.TemplateRevision).To(Equal(old), "a resumed session goes on as it was")
	h.edit(hasFailed)
	h.Expect(h.pass().Status.TemplateRevision).To(Equal(old))
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Attempt = 1 })
	h.Expect(h.pass().Status.TemplateRevision).To(Equal(revision), "one that failed is tried with the template as it stands")
}

func TestRetryThatIsRefused(t *testing.T) {
	h, _ := placedInMemory(t)
	template := &v1alpha1.VDITemplate{}
	template.Name = "browser"
	h.edit(hasFailed)
	h.pass()
	h.Expect(h.api.Delete(context.Background(), template)).To(Succeed())
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Attempt = 1 })
	s := h.pass()
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseFailed))
	h.Expect(s.Status.Message).To(HavePrefix(`it is not retried: there is no template "browser"`))
	h.Expect(s.Status.Placement.Idle).To(BeTrue())
	h.Expect(h.fleet.resumed).To(BeEmpty())
}

func TestHigherAttemptOfADesktopThatRuns(t *testing.T) {
	h, clock := placedInMemory(t)
	clock.SetTime(clock.Now().Add(5 * time.Minute))
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Attempt = 3 })
	s := h.pass()
	h.Expect(s.Status.Attempt).To(Equal(int64(3)))
	h.Expect(s.Status.Placement.Run).To(Equal(int64(2)))
	h.Expect(s.Status.Placement.Idle).To(BeFalse())
	h.Expect(s.Status.TimeUsed).To(Equal(v1alpha1.Duration("5m0s")))
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseCreating))
	h.Expect(h.fleet.resumed).To(BeEmpty(), "it has capacity")
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventRetried}))
}

// A session whose assignment was deleted in the member by hand is rescheduled,
// but not if it is not to run.
func TestPlacementThatEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.VDISession)
		reason string
	}{
		{"running", func(*v1alpha1.VDISession) {}, "True/Placed"},
		{"suspended", suspended, "False/Suspended"},
		{"its time is over", func(s *v1alpha1.VDISession) { s.Spec.Timeout = "10m" }, "False/TimeExpired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, clock := placedInMemory(t)
			clock.SetTime(clock.Now().Add(20 * time.Minute))
			h.edit(c.change)
			h.pass()
			h.member.away, h.member.reported = false, sessiontest.Reported(v1alpha1.AssignmentStopped, 1, "")
			_, err := h.reconcile()
			h.Expect(err).NotTo(HaveOccurred())
			s := h.stored()
			h.Expect(s.Status.Placement).To(BeNil())
			h.Expect(s.Status.TimeUsed).To(Equal(v1alpha1.Duration("20m0s")))
			h.member.reported = nil
			h.pass()
			h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(HavePrefix(c.reason))
		})
	}
}
