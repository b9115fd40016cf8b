package session

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// misfitInMemory returns a hub whose session is placed in "eu", where no node fits its
// Pod, and has capacity in another member.
func misfitInMemory(t *testing.T, change ...func(*v1alpha1.VDISession)) (*hubInMemory, *clocktesting.FakePassiveClock) {
	t.Helper()
	h := newHubInMemory(t)
	clock := clocktesting.NewFakePassiveClock(sessiontest.Now.Truncate(time.Second))
	h.Clock = clock
	h.pass()
	h.fleet.other = true
	h.edit(func(s *v1alpha1.VDISession) {
		s.Status.Placement = &v1alpha1.Placement{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 1, Run: 1, PlacementTime: status.Seconds(clock.Now())}
		sessiontest.Condition(v1alpha1.ConditionAssigned, sessiontest.Yes, v1alpha1.ReasonStored)(s)
		sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonUnschedulablePod)(s)
		for _, f := range change {
			f(s)
		}
	})
	h.pass()
	h.events()
	h.fleet.placed, h.fleet.released = nil, 0
	return h, clock
}

// later advances time, and reconciles.
func (h *hubInMemory) later(clock *clocktesting.FakePassiveClock, d time.Duration) *v1alpha1.VDISession {
	clock.SetTime(clock.Now().Add(d))
	return h.pass()
}

func TestSessionThatNoNodeFitsIsMovedToAnotherMember(t *testing.T) {
	h, clock := misfitInMemory(t)
	s := h.later(clock, lifecycle.DefaultMoveAfter-time.Second)
	h.Expect(s.Status.Placement).NotTo(BeNil(), "kube-scheduler has not had its time yet")
	h.Expect(h.fleet.placed).To(BeEmpty())
	before := h.movesCounted()

	s = h.later(clock, time.Second)
	h.Expect(s.Status.Placement).To(BeNil())
	h.Expect(s.Status.Releasing).To(Equal([]v1alpha1.Release{{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 1}}))
	h.Expect(s.Status.Epoch).To(Equal(int64(1)), "it is rescheduled once the stop is confirmed")
	h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(Equal("False/Releasing: waiting until eu has confirmed that nothing of it runs"))
	h.Expect(h.condition(v1alpha1.ConditionPodReady)).To(BeEmpty())
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventMoved}))
	h.Expect(h.fleet.placed).To(Equal([]int64{2}))
	h.Expect(h.fleet.released).To(BeZero(), "the capacity there is reserved for it")
	h.Expect(h.movesCounted()).To(Equal(before + 1))

	h.edit(func(s *v1alpha1.VDISession) { s.Status.Releasing = nil })
	s = h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
	h.Expect(s.Status.Placement.Epoch).To(Equal(int64(2)))
	h.Expect(h.fleet.refused).To(HaveKey(sessiontest.Here), "it may not return at once")
	h.later(clock, memory.LeftFor)
	h.Expect(h.memory.Known(s, h.Clock.Now(), h.fleet.ReportedAt).Excluded).To(BeEmpty(), "but it may later")
}

// movesCounted returns how often sessions were moved because no node fits their Pods.
func (h *hubInMemory) movesCounted() int { return h.movesCountedFor(v1alpha1.ReasonUnschedulablePod) }

// movesCountedFor returns how often sessions were moved for a reason.
func (h *hubInMemory) movesCountedFor(reason string) int {
	var m dto.Metric
	h.Expect(moved.WithLabelValues(reason).Write(&m)).To(Succeed())
	return int(m.GetCounter().GetValue())
}

// podReason sets the reason for which the session's Pod has no node.
func podReason(reason string) func(*v1alpha1.VDISession) {
	return sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, reason)
}

func TestSessionIsMovedAtOnceIfItsMemberAddsNoNode(t *testing.T) {
	h, _ := misfitInMemory(t, podReason(v1alpha1.ReasonNodeProvisioning))
	before := h.movesCountedFor(v1alpha1.ReasonScaleUpFailed)
	h.edit(podReason(v1alpha1.ReasonScaleUpFailed))
	s := h.pass()
	h.Expect(s.Status.Placement).To(BeNil(), "kube-scheduler needs no more time: its autoscaler has had it")
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventMoved}))
	h.Expect(h.movesCountedFor(v1alpha1.ReasonScaleUpFailed)).To(Equal(before + 1))
	excluded := func(after time.Duration) map[types.UID]string {
		return h.memory.Known(s, h.Clock.Now().Add(after), h.fleet.ReportedAt).Excluded
	}
	h.Expect(excluded(memory.LeftFor - time.Second)).To(HaveKeyWithValue(sessiontest.Here, memory.ScaleUpFailed.Exclusion()))
	h.Expect(excluded(memory.LeftFor)).To(BeEmpty())
}

func TestSessionWaitsForANodeForMaxProvisioningTime(t *testing.T) {
	for name, c := range map[string]struct {
		policy *v1alpha1.PlacementPolicySpec
		want   time.Duration
	}{
		"by default":         {nil, v1alpha1.DefaultMaxProvisioningTime},
		"without a limit":    {&v1alpha1.PlacementPolicySpec{}, v1alpha1.DefaultMaxProvisioningTime},
		"of its policy":      {&v1alpha1.PlacementPolicySpec{MaxProvisioningTime: "3m"}, 3 * time.Minute},
		"of its policy, 0 s": {&v1alpha1.PlacementPolicySpec{MaxProvisioningTime: "0s"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h, clock := misfitInMemory(t, podReason(v1alpha1.ReasonPodPending))
			if c.policy != nil {
				h.Expect(h.api.Create(t.Context(), &v1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: *c.policy})).To(Succeed())
			}
			before := h.movesCountedFor(string(memory.ProvisioningTimeout))
			h.edit(podReason(v1alpha1.ReasonNodeProvisioning))
			if c.want > 0 {
				result, err := h.reconcile()
				h.Expect(err).NotTo(HaveOccurred())
				h.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", c.want)))
				h.Expect(h.later(clock, c.want-time.Second).Status.Placement).NotTo(BeNil())
				clock.SetTime(clock.Now().Add(time.Second))
			}
			h.Expect(h.pass().Status.Placement).To(BeNil())
			h.Expect(h.movesCountedFor(string(memory.ProvisioningTimeout))).To(Equal(before + 1))
			h.Expect(h.memory.Known(h.stored(), h.Clock.Now(), h.fleet.ReportedAt).Excluded).To(
				HaveKeyWithValue(sessiontest.Here, memory.ProvisioningTimeout.Exclusion()))
		})
	}
}

func TestKubeSchedulerHasItsWholeTimeAfterANodeThatDidNotCome(t *testing.T) {
	h, clock := misfitInMemory(t)
	h.later(clock, lifecycle.DefaultMoveAfter-time.Second)
	h.edit(podReason(v1alpha1.ReasonNodeProvisioning))
	h.Expect(h.later(clock, time.Minute).Status.Placement).NotTo(BeNil())
	h.edit(podReason(v1alpha1.ReasonUnschedulablePod))
	h.pass()
	h.Expect(h.later(clock, lifecycle.DefaultMoveAfter-time.Second).Status.Placement).NotTo(BeNil())
	h.Expect(h.later(clock, time.Second).Status.Placement).To(BeNil())
}

func TestSessionThatNoNodeFitsStays(t *testing.T) {
	for name, why := range map[string]func(*hubInMemory){
		"while it fits no other member":  func(h *hubInMemory) { h.fleet.nowhere = true },
		"while its member can't confirm": func(h *hubInMemory) { h.fleet.away = true },
		"while its Pod waits for something else": func(h *hubInMemory) {
			h.edit(sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonPodPending))
		},
		"once it has run there": func(h *hubInMemory) {
			h.edit(func(s *v1alpha1.VDISession) {
				at := metav1.NewTime(s.Status.Placement.PlacementTime.Add(time.Second))
				s.Status.StartTime = &at
			})
		},
		"where it runs again": func(h *hubInMemory) {
			h.edit(func(s *v1alpha1.VDISession) {
				at := metav1.NewTime(s.Status.Placement.PlacementTime.Add(-time.Hour))
				s.Status.StartTime, s.Status.Placement.Run = &at, 2
			})
		},
		"where its home is": func(h *hubInMemory) {
			h.edit(func(s *v1alpha1.VDISession) {
				at := metav1.NewTime(s.Status.Placement.PlacementTime.Add(-time.Hour))
				s.Status.StartTime = &at
				s.Status.Home = &v1alpha1.SessionHome{ClusterName: "eu", ClusterUID: sessiontest.Here, ClaimName: "c"}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, clock := misfitInMemory(t)
			why(h)
			for range 10 {
				s := h.later(clock, time.Minute)
				h.Expect(s.Status.Placement.ClusterName).To(Equal("eu"))
				h.Expect(s.Status.Releasing).To(BeEmpty())
			}
			h.Expect(h.events()).NotTo(ContainElement(v1alpha1.EventMoved))
		})
	}
}

func TestSessionThatRanElsewhereBeforeIsMovedToo(t *testing.T) {
	h, clock := misfitInMemory(t, func(s *v1alpha1.VDISession) {
		at := metav1.NewTime(s.Status.Placement.PlacementTime.Add(-time.Hour))
		s.Status.StartTime = &at
	})
	h.Expect(h.later(clock, lifecycle.DefaultMoveAfter).Status.Placement).To(BeNil())
}

func TestSessionThatFitsNoOtherMemberIsPending(t *testing.T) {
	h, clock := misfitInMemory(t)
	waits := func() int {
		reasons, _ := h.scheduler.Waiting()
		return reasons[v1alpha1.ReasonUnschedulablePod]
	}
	h.Expect(waits()).To(BeZero(), "kube-scheduler has not had its time yet")
	h.fleet.nowhere = true
	h.later(clock, lifecycle.DefaultMoveAfter)
	h.Expect(waits()).To(Equal(1))
	h.Expect(h.Scheduler.Pending(func(r *scheduling.Request) bool {
		_, refused := r.Placement.Refused[sessiontest.Here]
		return refused
	})).To(HaveLen(1), "capacity where it is helps it no more")
	result, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", scheduling.DefaultRecheckAfter)))

	h.edit(sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.Yes, v1alpha1.ReasonPodReady))
	h.pass()
	h.Expect(waits()).To(BeZero(), "it has found a node after all")

	h.edit(sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonUnschedulablePod))
	h.pass()
	h.later(clock, lifecycle.DefaultMoveAfter)
	h.Expect(waits()).To(Equal(1))
	h.fleet.nowhere = false
	h.Expect(h.pass().Status.Placement).To(BeNil(), "another member has capacity now")
	h.Expect(waits()).To(BeZero())
}

func TestWriteOfAMoveThatIsRejectedReleasesItsCapacity(t *testing.T) {
	h, clock := misfitInMemory(t)
	clock.SetTime(clock.Now().Add(lifecycle.DefaultMoveAfter))
	h.answer = apierrors.NewConflict(schema.GroupResource{Resource: "vdisessions"}, "mine", errors.New("changed"))
	_, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred(), "that is how the lock is meant to work")
	h.Expect(h.fleet.released).To(Equal(1))
	h.Expect(h.stored().Status.Placement.ClusterName).To(Equal("eu"))
	h.Expect(h.memory.Known(h.stored(), h.Clock.Now(), h.fleet.ReportedAt).Excluded).To(BeEmpty(), "it was not moved")
}
