package session_test

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/uuid"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/session"
)

// restores is the hub's record of its restores, as hub.hubTerm has it.
var restores = &restoresInMemory{}

type restoresInMemory struct {
	fleet *member.Fleet

	mu   sync.Mutex
	last session.Restore
}

var _ = BeforeEach(func() {
	restores.mu.Lock()
	defer restores.mu.Unlock()
	restores.last = session.Restore{}
})

func (r *restoresInMemory) Last() session.Restore {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *restoresInMemory) Detected(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.Term == 0 {
		r.last = session.Restore{Term: 3, Time: time.Now()}
		r.fleet.Restored()
	}
	return nil
}

// firstAfterRestore is above all epochs that a hub of before the restore assigned.
const firstAfterRestore = 3<<20 + 1

// backUp copies the hub's etcd. restore restores the copy, restarts the agents, and
// starts a hub that has no other state. No agent is connected then.
func backUp(ctx context.Context) (restore func()) {
	GinkgoHelper()
	settled()
	name := string(uuid.NewUUID())
	Expect(plane.SaveEtcd(ctx, name)).To(Succeed())
	return func() {
		GinkgoHelper()
		settled()
		for _, a := range agents {
			a.restart()
		}
		theHub.stop()
		Expect(plane.RestoreEtcd(ctx, name)).To(Succeed())
		theHub = startHub(theHub.timings)
	}
}

// epochAt returns the epoch of a session in a member, or 0.
func epochAt(a *agent, s *api.VDISession) func() int64 {
	return func() int64 {
		if held := a.holds(s.UID); held != nil {
			return held.Spec.Epoch
		}
		return 0
	}
}

// epochOf returns the epoch of a session's placement, or 0.
func epochOf(ctx context.Context, s *api.VDISession) func() int64 {
	return func() int64 {
		if at := now(ctx, s).Status.Placement; at != nil {
			return at.Epoch
		}
		return 0
	}
}

var _ = Describe("a hub that was restored from a backup", func() {
	It("places and resumes nothing until every member has reported", func(ctx SpecContext) {
		eu, us := join(ctx, "eu"), join(ctx, "us")
		template(ctx, "browser")
		asleep := create(ctx, "desktops", "asleep", onlyIn("eu"))
		Eventually(phase(ctx, asleep)).Should(HavePrefix("Running"))
		suspend(ctx, asleep)
		Eventually(func() bool { return now(ctx, asleep).Status.Placement.Idle }).Should(BeTrue())

		theHub.stop()
		eu.disconnect()
		us.disconnect()
		theHub = startHub(timings)
		theHub.fleet.Restored()
		eu.connect(theHub)
		s := create(ctx, "desktops", "new")
		resume(ctx, asleep)
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("False/" + api.ReasonHubRestored))
		Eventually(reason(ctx, asleep, api.ConditionScheduled)).Should(Equal("False/" + api.ReasonHubRestored))
		Expect(now(ctx, s).Status.Message).To(ContainSubstring("restored from a backup"))
		Consistently(func() *api.Placement { return now(ctx, s).Status.Placement }).Should(BeNil())

		us.connect(theHub)
		Eventually(phase(ctx, s)).Should(HavePrefix("Running"))
		Eventually(phase(ctx, asleep)).Should(HavePrefix("Running"))
	})

	It("keeps every running desktop, and assigns no epoch twice, whatever has happened to a session since", func(ctx SpecContext) {
		template(ctx, "browser")
		eu, us := join(ctx, "eu"), join(ctx, "us")
		kept := create(ctx, "desktops", "kept", onlyIn("eu"))
		moved, ended := create(ctx, "desktops", "moved"), create(ctx, "desktops", "ended", onlyIn("eu"))
		us.set(func() {
			us.refuse = func(*api.SessionAssignment) (string, string) { return api.RefusedNoCapacity, "full" }
		})
		for _, s := range []*api.VDISession{kept, moved, ended} {
			running(ctx, s)
		}
		before := now(ctx, moved)
		if before.Status.Placement.ClusterName != "eu" {
			Fail("moved is not in eu")
		}
		deleted := create(ctx, "desktops", "deleted", onlyIn("eu"))
		running(ctx, deleted)
		placed, pending := create(ctx, "desktops", "placed", onlyIn("nowhere")), create(ctx, "desktops", "pending", onlyIn("nowhere"))
		for _, s := range []*api.VDISession{placed, pending} {
			Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		}
		restore := backUp(ctx)

		// The following is not in the backup.
		us.set(func() { us.refuse = nil })
		eu.set(func() {
			eu.refuse = func(*api.SessionAssignment) (string, string) { return api.RefusedNoCapacity, "full" }
		})
		eu.deleteByHand(moved.UID)
		edit(ctx, placed, func() { placed.Spec.Placement.ClusterSelector = nil })
		for _, s := range []*api.VDISession{moved, placed} {
			Eventually(epochAt(us, s)).Should(BeNumerically(">", 0))
			running(ctx, s)
		}
		epochs := map[*api.VDISession]int64{kept: epochAt(eu, kept)(), moved: epochAt(us, moved)(), placed: epochAt(us, placed)()}
		Expect(admin.Delete(ctx, deleted)).To(Succeed())
		Eventually(gone(ctx, deleted)).Should(BeTrue())
		unknown := create(ctx, "desktops", "unknown", onlyIn("us"))
		running(ctx, unknown)
		eu.set(func() { eu.refuse = nil; eu.end(ended.UID) })
		restore()

		Expect(restores.Detected(ctx)).To(Succeed())
		eu.connect(theHub)
		Eventually(reason(ctx, placed, api.ConditionScheduled)).Should(Equal("False/" + api.ReasonHubRestored))
		Consistently(eu.sessions, "2s").Should(ConsistOf(kept.UID), "a member gets no new order")

		us.connect(theHub)
		for s, epoch := range epochs {
			Eventually(epochOf(ctx, s)).Should(Equal(epoch), s.Name)
			s, a := running(ctx, s)
			Expect(epochAt(a, s)()).To(Equal(epoch), "%s goes on as it is", s.Name)
			Eventually(func() []api.Release { return now(ctx, s).Status.Releasing }).Should(BeEmpty(), s.Name)
		}
		for _, s := range []*api.VDISession{ended, deleted} {
			Eventually(epochAt(eu, s)).Should(Equal(int64(firstAfterRestore)), "its epoch of before was used up")
			running(ctx, s)
		}
		Expect(us.holds(unknown.UID)).NotTo(BeNil(), "what the hub has no record of is not touched")
		edit(ctx, pending, func() { pending.Spec.Placement.ClusterSelector = nil })
		got, _ := running(ctx, pending)
		Expect(got.Status.Placement.Epoch).To(Equal(int64(firstAfterRestore)))
		later, _ := running(ctx, create(ctx, "desktops", "later"))
		Expect(later.Status.Placement.Epoch).To(Equal(int64(1)), "no hub of before can have assigned it any")
	})

	It("detects the restore by an epoch that a member proves", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu")
		s := create(ctx, "desktops", "s")
		running(ctx, s)
		restore := backUp(ctx)
		eu.deleteByHand(s.UID)
		Eventually(epochAt(eu, s)).Should(Equal(int64(2)))
		running(ctx, s)
		restore()
		eu.connect(theHub)
		Eventually(func() int64 { return restores.Last().Term }).ShouldNot(BeZero())
		Eventually(epochOf(ctx, s)).Should(Equal(int64(2)))
		running(ctx, s)
		Expect(eu.holds(s.UID).Spec.Epoch).To(Equal(int64(2)))
	})

	// The restore is not detected before the first member connects: see docs/operators.md.
	It("returns a session to where it was, whose epoch it has assigned again", func(ctx SpecContext) {
		template(ctx, "browser")
		us := join(ctx, "us")
		s := create(ctx, "desktops", "s", onlyIn("nowhere"))
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		restore := backUp(ctx)
		edit(ctx, s, func() { s.Spec.Placement.ClusterSelector = nil })
		running(ctx, s)
		restore()
		eu := join(ctx, "eu")
		edit(ctx, s, func() { s.Spec.Placement.ClusterSelector = nil })
		Eventually(epochAt(eu, s)).Should(Equal(int64(1)), "it runs twice, which cannot be detected")
		running(ctx, s)
		theWorld = newWorld()

		us.connect(theHub)
		Eventually(epochAt(us, s)).Should(Equal(int64(firstAfterRestore)))
		Eventually(eu.sessions).Should(BeEmpty())
		_, a := running(ctx, s)
		Expect(a).To(Equal(us))
	})

	It("does not start what must not run twice while a member that may run it is away", func(ctx SpecContext) {
		template(ctx, "browser")
		theHub.timings.Recovery = 4 * time.Second
		eu, us := join(ctx, "eu"), join(ctx, "us")
		any := create(ctx, "desktops", "any", onlyIn("eu"))
		held := create(ctx, "desktops", "held", onlyIn("eu"), func(s *api.SessionSpec) { s.Failover.Mode = api.FailoverHold })
		for _, s := range []*api.VDISession{any, held} {
			running(ctx, s)
		}
		restore := backUp(ctx)
		eu.set(func() { eu.end(any.UID); eu.end(held.UID) })
		restore()
		Expect(restores.Detected(ctx)).To(Succeed())
		eu.connect(theHub)
		Eventually(epochAt(eu, any)).Should(Equal(int64(firstAfterRestore)))
		Eventually(phase(ctx, held)).Should(ContainSubstring("us may run the session (mode Hold)"))
		Consistently(epochAt(eu, held)).Should(BeZero())
		us.connect(theHub)
		Eventually(theHub.fleet.Unreported).Should(BeEmpty())
		edit(ctx, held, func() { held.Spec.Timeout = "9h" }) // enqueues it, as its recheck would later
		running(ctx, held)
	})
})
