package member

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
)

// schedule changes a member's spec as an operator does.
func (x *controllers) schedule(name string, change func(*v1alpha1.MemberClusterSpec)) {
	mc := x.stored(name)
	change(&mc.Spec)
	mc.Generation++
	x.Expect(x.c.Update(context.Background(), mc)).To(Succeed())
	x.reconcile(name)
}

func (x *controllers) stored(name string) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{}
	x.Expect(x.c.Get(context.Background(), client.ObjectKey{Name: name}, mc)).To(Succeed())
	return mc
}

// drained returns the Drained condition of a member.
func (x *controllers) drained(name string) string {
	c := meta.FindStatusCondition(x.stored(name).Status.Conditions, v1alpha1.ConditionDrained)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason + ": " + c.Message
}

func holds(x *controllers, member types.UID, n int) {
	for i := range n {
		s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: types.UID(string(member) + string(rune('a'+i)))}}
		s.Status.Epoch, s.Status.Placement = 1, &v1alpha1.Placement{ClusterName: "eu", ClusterUID: member, Epoch: 1, Run: 1}
		x.Observe(s, false)
	}
}

func drains(s *v1alpha1.MemberClusterSpec) { s.Scheduling = v1alpha1.SchedulingDraining }

func TestDrainedMemberReportsItsProgress(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	x.connect("uid-eu", "i1")
	holds(x, "uid-eu", 5)
	x.reconcile("eu")
	draining := x.State("uid-eu").Drain != nil
	x.Expect(draining).To(BeFalse())
	x.Expect(x.drained("eu")).To(BeEmpty())

	notified := 0
	x.Listen(func(c Change) {
		if x.State("uid-eu").Drain != nil && c.Kind == MemberChanged {
			notified++
		}
	})
	deadline := metav1.NewTime(x.clock.Now().Add(time.Hour)).Rfc3339Copy()
	x.schedule("eu", func(s *v1alpha1.MemberClusterSpec) {
		drains(s)
		s.Drain = v1alpha1.DrainLimits{Deadline: &deadline, MaxUnavailable: ptr.To(int32(2))}
	})
	mc := x.stored("eu")
	x.Expect(mc.Status.Drain).NotTo(BeNil(), "at once")
	x.Expect(mc.Status.Drain.StartTime.Time).To(BeTemporally("==", x.clock.Now()))
	d := x.State("uid-eu").Drain
	x.Expect(d).NotTo(BeNil())
	x.Expect(d.MaxUnavailable).To(Equal(2))
	x.Expect(d.Deadline).To(BeTemporally("==", deadline.Time))
	x.Expect(d.StartTime).To(BeTemporally("==", mc.Status.Drain.StartTime.Time))
	x.Expect(notified).To(Equal(1), "its sessions are requeued once the beginning is durable")
	x.Expect(x.drained("eu")).To(HavePrefix("False/Draining: 5 sessions are still there"))

	writes := x.writes
	for n := range int32(5) {
		x.ShowDrain("uid-eu", v1alpha1.DrainStatus{Moving: 1, InUse: 4 - n, Homes: n})
		x.reconcile("eu")
	}
	x.Expect(x.writes).To(Equal(writes), "numbers wait their turn")
	x.ShowDrain("uid-eu", v1alpha1.DrainStatus{Moving: 2, Waiting: 1, InUse: 1, Homes: 1})
	x.clock.Step(backoff.StatusInterval)
	x.reconcile("eu")
	x.Expect(x.writes).To(Equal(writes + 1))
	x.Expect(x.drained("eu")).To(And(ContainSubstring("2 moving"), ContainSubstring("(2 at once)"),
		ContainSubstring("1 in use, until they are idle, or "+deadline.UTC().Format(time.RFC3339)), ContainSubstring("1 have their homes there")))

	x.clock.Step(backoff.StatusInterval)
	x.ShowDrain("uid-eu", v1alpha1.DrainStatus{NoCapacity: 3, Homes: 2})
	x.reconcile("eu")
	x.Expect(x.drained("eu")).To(And(HavePrefix("False/SessionsRemain"), ContainSubstring("3 fit nowhere else: add capacity"), ContainSubstring("spec.freshHome")))
}

func TestMemberThatIsEmptyIsDrainedAtOnceAndOpenedAgain(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	x.connect("uid-eu", "i1")
	x.reconcile("eu")
	x.schedule("eu", drains)
	x.Expect(x.drained("eu")).To(HavePrefix("True/Drained"))
	x.schedule("eu", func(s *v1alpha1.MemberClusterSpec) { s.Scheduling = v1alpha1.SchedulingActive })
	x.Expect(x.drained("eu")).To(BeEmpty())
	x.Expect(x.stored("eu").Status.Drain).To(BeNil())
	var events []string
	for len(x.recorder.Events) > 0 {
		events = append(events, <-x.recorder.Events)
	}
	x.Expect(events).To(ContainElements(ContainSubstring("Normal Drained nothing is placed there"), ContainSubstring("Draining the drain was ended")))
}

func TestMemberThatIsDrainedAndAwayWaitsForItsAgent(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	x.connect("uid-eu", "i1")
	holds(x, "uid-eu", 1)
	x.schedule("eu", drains)
	x.clock.Step(x.timings.Unreachable)
	x.reconcile("eu")
	x.Expect(x.drained("eu")).To(Equal("False/Draining: 1 session is still there, and no agent to confirm that any has stopped: see the condition Ready"))
}
