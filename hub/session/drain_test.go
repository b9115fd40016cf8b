package session

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// drainage is the drain of a fleet's only member, nil if there is none, and its progress.
type drainage struct {
	drain  *member.Drain
	counts v1alpha1.DrainStatus
}

func (d *drainage) drainOf(uid types.UID) *member.Drain {
	if uid != sessiontest.Here {
		return nil
	}
	return d.drain
}

func (d *drainage) ShowDrain(_ types.UID, counts v1alpha1.DrainStatus) { d.counts = counts }

// drainedInMemory returns a hub whose session runs in "eu", which is being drained, and
// has capacity in "us".
func drainedInMemory(t *testing.T, change ...func(*v1alpha1.VDISession)) (*hubInMemory, *clocktesting.FakePassiveClock) {
	t.Helper()
	h, clock := placedInMemory(t)
	clock.SetTime(clock.Now().Add(time.Hour))
	h.fleet.other = true
	h.fleet.drain = &member.Drain{StartTime: clock.Now(), MaxUnavailable: 1}
	h.edit(func(s *v1alpha1.VDISession) {
		s.Status.StartTime = s.Status.RunningSince.DeepCopy()
		for _, f := range change {
			f(s)
		}
	})
	return h, clock
}

func idle(s *v1alpha1.VDISession) {
	at := metav1.NewTime(sessiontest.Now.Truncate(time.Second))
	s.Status.IdleSince = &at
}

func TestIdleSessionIsMovedOutOfADrainedMemberAtOnce(t *testing.T) {
	h, _ := drainedInMemory(t, idle)
	s := h.pass()
	h.Expect(s.Status.Placement).To(BeNil())
	h.Expect(s.Status.Releasing).To(HaveExactElements(And(HaveField("ClusterUID", sessiontest.Here), HaveField("Epoch", int64(1)))))
	h.Expect(s.Status.IdleSince).To(BeNil())
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventMoved}))
	h.Expect(h.fleet.placed).To(Equal([]int64{2}), "capacity elsewhere first")
	h.Expect(h.fleet.released).To(BeZero(), "and it is kept")
	h.Expect(h.fleet.refused).To(HaveKeyWithValue(sessiontest.Here, ContainSubstring("drained")))
	h.Expect(h.fleet.counts).To(Equal(v1alpha1.DrainStatus{Moving: 1}))

	h.edit(func(s *v1alpha1.VDISession) { s.Status.Releasing = nil })
	s = h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
	observer{h.Reconciler}.seen(s, false, true)
	h.Expect(h.fleet.counts).To(Equal(v1alpha1.DrainStatus{Moving: 1}), "it does not run there yet")
	h.edit(func(s *v1alpha1.VDISession) {
		at := s.Status.Placement
		sessiontest.Ready(s)
		s.Status.Placement = at
	})
	h.pass()
	observer{h.Reconciler}.seen(h.stored(), false, true)
	h.Expect(h.fleet.counts).To(BeZero())
}

func TestSessionInUseShowsTheDrainAndIsMovedAtTheDeadline(t *testing.T) {
	h, clock := drainedInMemory(t)
	h.fleet.drain.Deadline = clock.Now().Add(time.Hour)
	result, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(result.RequeueAfter).To(Equal(time.Hour))
	s := h.pass()
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseRunning))
	h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(And(HavePrefix("True/Draining: eu is being drained"),
		ContainSubstring(h.fleet.drain.Deadline.UTC().Format(time.RFC3339)), ContainSubstring("save your work")))
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventDraining}))
	h.Expect(h.fleet.counts).To(Equal(v1alpha1.DrainStatus{InUse: 1}))
	h.Expect(h.fleet.placed).To(BeEmpty())

	h.fleet.drain.Deadline = clock.Now().Add(2 * time.Hour)
	h.later(clock, time.Hour)
	h.Expect(h.stored().Status.Placement).NotTo(BeNil(), "it has been put off")
	h.Expect(h.events()).To(BeEmpty(), "reported once")
	s = h.later(clock, time.Hour)
	h.Expect(s.Status.Placement).To(BeNil())
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventMoved}))
}

func TestSessionInUseIsNeverEvictedWithoutADeadline(t *testing.T) {
	h, clock := drainedInMemory(t)
	for range 5 {
		h.Expect(h.later(clock, 1000*time.Hour).Status.Placement).NotTo(BeNil())
	}
	h.edit(idle)
	h.Expect(h.pass().Status.Placement).To(BeNil(), "but is moved when it is idle")
}

func TestSessionThatDoesNotRunIsMovedOutOfADrainedMember(t *testing.T) {
	h, _ := drainedInMemory(t, suspended)
	h.fleet.nowhere = true
	s := h.pass()
	h.Expect(s.Status.Placement).To(BeNil(), "it needs no capacity")
	h.Expect(h.fleet.counts).To(BeZero(), "and does not count against the drain budget")
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventSuspended, v1alpha1.EventMoved, v1alpha1.EventWaiting}))
	h.Expect(s.Status.Releasing).To(HaveLen(1))
	h.edit(func(s *v1alpha1.VDISession) { s.Status.Releasing = nil })
	h.pass()
	h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(HavePrefix("False/Suspended"))
}

func TestSessionStaysInAMemberThatIsDrained(t *testing.T) {
	for _, c := range []struct {
		name    string
		why     func(*hubInMemory)
		counts  v1alpha1.DrainStatus
		message string
	}{
		{"where its home is", func(h *hubInMemory) {
			h.edit(func(s *v1alpha1.VDISession) {
				s.Status.Home = &v1alpha1.SessionHome{ClusterName: "eu", ClusterUID: sessiontest.Here, ClaimName: "c"}
			})
		}, v1alpha1.DrainStatus{Homes: 1}, "its home is there"},
		{"while it fits no other member", func(h *hubInMemory) { h.fleet.nowhere = true }, v1alpha1.DrainStatus{NoCapacity: 1}, "2 clusters: 2 lack cpu"},
		{"where it has failed", func(h *hubInMemory) { h.edit(hasFailed) }, v1alpha1.DrainStatus{Failed: 1}, "spec.attempt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, clock := drainedInMemory(t, idle)
			c.why(h)
			h.fleet.drain.Deadline = clock.Now()
			for range 3 {
				h.Expect(h.later(clock, time.Hour).Status.Placement).NotTo(BeNil())
			}
			h.Expect(h.fleet.counts).To(Equal(c.counts))
			h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(And(HavePrefix("True/Draining: eu is being drained"), ContainSubstring(c.message)))
			h.Expect(h.events()).To(ContainElement(v1alpha1.EventDraining))
		})
	}
}

func TestSessionThatFindsNoCapacityElsewhereIsPending(t *testing.T) {
	h, _ := drainedInMemory(t, idle)
	h.fleet.nowhere = true
	h.pass()
	reasons, _ := h.scheduler.Waiting()
	h.Expect(reasons).To(Equal(map[string]int{v1alpha1.ReasonDraining: 1}))
	h.fleet.nowhere = false
	h.Expect(h.pass().Status.Placement).To(BeNil())
}

func TestDrainOfAMemberThatIsAwayWaits(t *testing.T) {
	h, _ := drainedInMemory(t, idle)
	h.fleet.away = true
	h.Expect(h.pass().Status.Placement).NotTo(BeNil())
	h.Expect(h.fleet.placed).To(BeEmpty())
}

func TestDrainThatIsCanceled(t *testing.T) {
	h, _ := drainedInMemory(t)
	h.pass()
	h.events()
	h.fleet.drain = nil
	h.edit(idle)
	s := h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("eu"))
	h.Expect(h.condition(v1alpha1.ConditionScheduled)).To(HavePrefix("True/Placed: eu: it is placed there, and is not drained any more"))
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventDraining}))
	h.Expect(h.drains.Limit(sessiontest.Here, 1)).To(BeFalse(), "it is not tracked any more")
}

func TestReleaseThatIsNotWrittenIsRetried(t *testing.T) {
	h, _ := drainedInMemory(t, idle)
	h.answer = fmt.Errorf("no")
	_, err := h.reconcile()
	h.Expect(err).To(HaveOccurred())
	h.Expect(h.fleet.counts).To(Equal(v1alpha1.DrainStatus{Moving: 1}), "whether it was is unknown")
	h.answer = nil
	h.Expect(h.pass().Status.Placement).To(BeNil())
	h.Expect(h.fleet.counts).To(Equal(v1alpha1.DrainStatus{Moving: 1}))
}
