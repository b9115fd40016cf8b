package session_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// lose cuts a member off, with all that runs there.
func (a *agent) lose() {
	theWorld.cutOff(a.name)
	a.disconnect()
}

// leaseOver stops all desktops, as their guards do when the lease is not renewed.
func (a *agent) leaseOver() {
	for _, uid := range a.sessions() {
		a.world.ends(a.name, uid)
	}
}

// declareFenced declares a member fenced, as an operator does.
func declareFenced(ctx context.Context, a *agent) {
	GinkgoHelper()
	mc := &api.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: a.name}}
	edit(ctx, mc, func() {
		mc.Spec.Fenced = &api.FencedDeclaration{Fingerprint: "fp-" + a.name, By: "ann@example.com", At: metav1.Now()}
	})
}

func failingOver(mode api.FailoverMode) func(*api.SessionSpec) {
	return func(s *api.SessionSpec) { s.Failover.Mode = mode }
}

// placedIn returns the member where a session is placed, and its epoch there.
func placedIn(ctx context.Context, s *api.VDISession) func() string {
	return func() string {
		at := now(ctx, s).Status.Placement
		if at == nil {
			return ""
		}
		return fmt.Sprintf("%s@%d", at.ClusterName, at.Epoch)
	}
}

// leftIn returns the releases of a session.
func leftIn(ctx context.Context, s *api.VDISession) func() []api.Release {
	return func() []api.Release { return now(ctx, s).Status.Releasing }
}

var _ = Describe("A session whose member is lost", func() {
	var eu, us *agent

	BeforeEach(func(ctx SpecContext) {
		theHub.stop()
		theHub = startHub(fastFailover())
		eu, us = join(ctx, "eu"), join(ctx, "us", func(a *agent) { a.slots = 0 })
	})

	// starts a session in eu, and then adds capacity for it in us.
	starts := func(ctx context.Context, name string, change ...func(*api.SessionSpec)) *api.VDISession {
		GinkgoHelper()
		s, at := running(ctx, create(ctx, "desktops", name, change...))
		Expect(at).To(BeIdenticalTo(eu))
		return s
	}
	capacity := func(n int) {
		us.set(func() { us.slots = n })
		us.send(func(m link.Member) { m.Capacity(us.report()) })
	}

	It("runs elsewhere when its failover is due, and its old copy is stopped when the member is back", specs.Smoke, func(ctx SpecContext) {
		template(ctx, "browser")
		s := starts(ctx, "restart")
		old := s.Status.URL
		capacity(10)
		failedOver := counted("vdi_hub_failovers_total")
		eu.lose()
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("Unknown/FailoverPending"))
		Expect(now(ctx, s).Status.Placement.ClusterName).To(Equal("eu"), "it is not due yet")
		m := mark()
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
		s, _ = running(ctx, s)
		settled()
		writes := sessionWrites(m)
		Expect(harness.Total(writes)).To(BeNumerically("<=", 3), "the placement, and what is mirrored of it: %+v", writes)
		Expect(s.Status.Releasing).To(Equal([]api.Release{{ClusterName: "eu", ClusterUID: eu.uid, Epoch: 1, Superseded: true}}))
		Expect(s.Status.URL).To(And(ContainSubstring("us.example.com"), Not(Equal(old))))
		f := now(ctx, s).Status.LastFailover
		Expect(f).To(And(HaveField("From", "eu"), HaveField("FromRegion", "eu"), HaveField("FromEpoch", int64(1)), HaveField("Reason", api.ReasonMemberUnreachable)))
		Expect(f.RecoveredTime).NotTo(BeNil())
		Expect(f.LostTime.Time).To(BeTemporally("<=", f.Time.Time))
		Eventually(eventCount(ctx, s, api.EventFailedOver)).Should(Equal(1))
		Eventually(eventCount(ctx, s, api.EventFailoverPending)).Should(Equal(1))
		Expect(counted("vdi_hub_failovers_total")).To(Equal(failedOver + 1))

		eu.connect(theHub)
		Eventually(leftIn(ctx, s)).Should(BeEmpty())
		Expect(eu.sessions()).To(BeEmpty())
		Expect(us.sessions()).To(ConsistOf(s.UID))
		Expect(placedIn(ctx, s)()).To(Equal("us@2"))
		Eventually(eventCount(ctx, s, api.EventHealed)).Should(Equal(1))
	})

	It("stays where it is when the member is back in time", func(ctx SpecContext) {
		template(ctx, "browser")
		s := starts(ctx, "patient", func(s *api.SessionSpec) { s.Failover.After = "1h" })
		capacity(10)
		eu.lose()
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("Unknown/FailoverPending"))
		settled()
		eu.connect(theHub)
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("True/Ready"))
		Expect(placedIn(ctx, s)()).To(Equal("eu@1"))
		Expect(now(ctx, s).Status.LastFailover).To(BeNil())
	})

	It("stays while no other member has capacity, and moves as soon as one has", func(ctx SpecContext) {
		template(ctx, "browser")
		s := starts(ctx, "crowded")
		eu.lose()
		Eventually(phase(ctx, s)).Should(And(HavePrefix("Running: "), ContainSubstring("no other member accepts the session now")))
		settled()
		Expect(placedIn(ctx, s)()).To(Equal("eu@1"))
		capacity(1)
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
	})

	It("is held with mode Hold until an operator declares the member fenced", specs.Smoke, func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		s := starts(ctx, "held")
		Expect(now(ctx, s).Status.Placement.FailoverMode).To(Equal(api.FailoverHold))
		claim := now(ctx, s).Status.Home.ClaimName
		capacity(10)
		eu.lose()
		Eventually(phase(ctx, s)).Should(ContainSubstring("kubectl vdi fence eu"))
		settled()
		Expect(placedIn(ctx, s)()).To(Equal("eu@1"))
		eu.leaseOver() // it is off
		declareFenced(ctx, eu)
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
		Expect(leftIn(ctx, s)()).To(ConsistOf(And(HaveField("Superseded", true), HaveField("HomeClaimName", claim))))
		s, _ = running(ctx, s)
		Expect(s.Status.LastFailover.Reason).To(Equal(api.ReasonMemberFenced))
		Expect(s.Status.Home.ClaimName).NotTo(Equal(claim))
		h := homeNow(ctx)
		Expect(h.Spec.ClusterUID).To(Equal(us.uid))
		Expect(h.Status.LeftBehind).To(ConsistOf(And(HaveField("ClaimName", claim), HaveField("ClusterUID", eu.uid))))
		eu.connect(theHub)
		Eventually(leftIn(ctx, s)).Should(BeEmpty())
	})

	It("shows that its mode would lose its home, and is held", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerSession, "10Gi"))
		refused := create(ctx, "desktops", "refused", failingOver(api.FailoverRestart))
		Eventually(reason(ctx, refused, api.ConditionAccepted)).Should(Equal("False/FailoverLosesHome"))
		Expect(now(ctx, refused).Status.Phase).To(Equal(api.PhaseFailed))
	})

	It("is failed over with mode Fence once its lease is over, if a guard runs beside it", func(ctx SpecContext) {
		template(ctx, "browser")
		guarded := starts(ctx, "guarded", failingOver(api.FailoverFence))
		bare := starts(ctx, "bare", failingOver(api.FailoverFence))
		Eventually(reason(ctx, bare, api.ConditionFailoverReady)).Should(Equal("False/Unguarded"))
		eu.updateStatus(guarded.UID, func(status *api.SessionAssignmentStatus) { status.Guarded = true })
		Eventually(func() bool { return now(ctx, guarded).Status.Placement.Guarded }).Should(BeTrue())
		Expect(reason(ctx, guarded, api.ConditionFailoverReady)(Default)).To(BeEmpty())
		capacity(10)
		eu.lose()
		eu.world.ends(eu.name, guarded.UID) // by its guard
		Eventually(placedIn(ctx, guarded)).Should(Equal("us@2"))
		running(ctx, guarded)
		Eventually(phase(ctx, bare)).Should(ContainSubstring("no guard"))
		settled()
		Expect(placedIn(ctx, bare)()).To(Equal("eu@1"))
		eu.connect(theHub)
		Eventually(reason(ctx, bare, api.ConditionReady)).Should(Equal("True/Ready"))
		Eventually(leftIn(ctx, guarded)).Should(BeEmpty())
	})

	It("is affirmed to its member after a lapse of the lease", func(ctx SpecContext) {
		template(ctx, "browser")
		s := starts(ctx, "lapsed", failingOver(api.FailoverFence))
		eu.updateStatus(s.UID, func(status *api.SessionAssignmentStatus) {
			status.Lapse = 3
			status.Conditions = conditions(api.ModeRunning)
			status.Conditions[1].Status, status.Conditions[1].Reason = metav1.ConditionFalse, api.ReasonLeaseExpired
		})
		Eventually(func() int64 { return eu.holds(s.UID).Spec.Lapse }).Should(Equal(int64(3)))
		Expect(now(ctx, s).Status.Placement.Lapse).To(Equal(int64(3)), "durable before it is sent")
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("True/Ready"))
		Expect(placedIn(ctx, s)()).To(Equal("eu@1"))
	})

	It("is affirmed with mode Hold to an agent that has restarted, and not once it is rescheduled", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		s := starts(ctx, "held")
		eu.updateStatus(s.UID, func(status *api.SessionAssignmentStatus) {
			status.Lapse = 1
			status.Conditions = conditions(api.ModeRunning)
			status.Conditions[1].Status, status.Conditions[1].Reason = metav1.ConditionFalse, api.ReasonAwaitingHub
		})
		Eventually(func() int64 { return eu.holds(s.UID).Spec.Lapse }).Should(Equal(int64(1)))
		Expect(now(ctx, s).Status.Placement.Guarded).To(BeFalse())
		Expect(placedIn(ctx, s)()).To(Equal("eu@1"))

		By("losing its member, which an operator declares fenced")
		capacity(10)
		eu.lose()
		Eventually(phase(ctx, s)).Should(ContainSubstring("kubectl vdi fence eu"))
		eu.leaseOver() // it is off
		declareFenced(ctx, eu)
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
		running(ctx, s)
		eu.set(func() { eu.held[s.UID].Status.Lapse = 2 })
		eu.connect(theHub)
		Eventually(leftIn(ctx, s)).Should(BeEmpty())
		Expect(now(ctx, s).Status.Placement.Lapse).To(BeZero())
	})

	It("fails back to its first copy if spec.failover allows it, and its replacement is stopped", specs.Smoke, func(ctx SpecContext) {
		template(ctx, "browser")
		s := starts(ctx, "original", func(s *api.SessionSpec) { s.Failover.Healing = api.HealKeepOriginal })
		capacity(10)
		first := password(accessNow(ctx, s))
		eu.lose()
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
		running(ctx, s)
		theWorld.cutOff("us") // two run for a moment, as they did before
		eu.connect(theHub)
		Eventually(placedIn(ctx, s)).Should(Equal("eu@3"))
		running(ctx, s)
		Eventually(leftIn(ctx, s)).Should(BeEmpty())
		Expect(us.sessions()).To(BeEmpty())
		Expect(eu.holds(s.UID).Spec.Epoch).To(Equal(int64(3)))
		Expect(password(accessNow(ctx, s))).To(Equal(first), "the copy was started with it")
	})

	It("that is suspended is released, and runs elsewhere when it is resumed", func(ctx SpecContext) {
		template(ctx, "browser")
		s := starts(ctx, "asleep")
		edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeSuspended })
		Eventually(reason(ctx, s, api.ConditionPodReady)).Should(Equal("False/Suspended"))
		capacity(10)
		eu.lose()
		Eventually(placedIn(ctx, s)).Should(BeEmpty())
		Expect(leftIn(ctx, s)()).To(HaveLen(1))
		edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeRunning })
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
		running(ctx, s)
		eu.connect(theHub)
		Eventually(leftIn(ctx, s)).Should(BeEmpty())
	})

	It("does not fail back while its old copy is not confirmed stopped", func(ctx SpecContext) {
		template(ctx, "browser")
		s := starts(ctx, "twice")
		capacity(10)
		eu.lose()
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
		running(ctx, s)
		eu.set(func() { eu.holdStops = true })
		eu.connect(theHub)
		Eventually(func() api.AssignmentState { return eu.holds(s.UID).Status.State }).Should(Equal(api.AssignmentStopping))
		us.lose()
		Eventually(phase(ctx, s)).Should(ContainSubstring("no other member accepts the session now"))
		settled()
		Expect(placedIn(ctx, s)()).To(Equal("us@2"))
		eu.finishStops()
		Eventually(placedIn(ctx, s)).Should(Equal("eu@3"))
		running(ctx, s)
	})

	It("is not lost, nor placed twice, where the hub is replaced meanwhile", func(ctx SpecContext) {
		template(ctx, "browser")
		var all []*api.VDISession
		for i := range 6 {
			all = append(all, starts(ctx, fmt.Sprint("many-", i)))
		}
		capacity(6)
		eu.lose()
		Eventually(placedIn(ctx, all[0])).Should(Equal("us@2"))
		delete(agents, eu.name)
		replaceHub()
		agents[eu.name] = eu
		for _, s := range all {
			Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
			running(ctx, s)
		}
		Expect(us.sessions()).To(HaveLen(6))
		more := create(ctx, "desktops", "more", onlyIn("us"))
		Eventually(reason(ctx, more, api.ConditionScheduled)).Should(Equal("False/Unschedulable"), "its capacity is in use")
		eu.connect(theHub)
		for _, s := range all {
			Eventually(leftIn(ctx, s)).Should(BeEmpty())
		}
		Expect(eu.sessions()).To(BeEmpty())
	})
})

var _ = Describe("A session that is deleted", func() {
	var eu, us *agent

	BeforeEach(func(ctx SpecContext) {
		theHub.stop()
		theHub = startHub(fastFailover())
		template(ctx, "browser")
		eu = join(ctx, "eu")
	})

	lost := func(ctx context.Context, change ...func(*api.SessionSpec)) *api.VDISession {
		GinkgoHelper()
		s, _ := running(ctx, create(ctx, "desktops", "ending", change...))
		us = join(ctx, "us")
		eu.lose()
		return s
	}

	It("while it waits to be rescheduled is removed once its member has stopped it", func(ctx SpecContext) {
		s := lost(ctx, failingOver(api.FailoverHold))
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("Unknown/FailoverPending"))
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(phase(ctx, s)).Should(HavePrefix("Terminating: being deleted: eu is unreachable"))
		settled()
		eu.connect(theHub)
		Eventually(gone(ctx, s)).Should(BeTrue())
		Expect(eu.sessions()).To(BeEmpty())
	})

	It("after it was rescheduled is kept until its old copy is stopped", func(ctx SpecContext) {
		s := lost(ctx)
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
		running(ctx, s)
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(us.sessions).Should(BeEmpty())
		Eventually(phase(ctx, s)).Should(HavePrefix("Terminating: being deleted: eu is unreachable"))
		settled()
		Expect(now(ctx, s).Status.Placement).To(BeNil())
		eu.connect(theHub)
		Eventually(gone(ctx, s)).Should(BeTrue())
		Expect(eu.sessions()).To(BeEmpty())
	})

	It("is removed with a member that is off, once that is declared fenced and removed", func(ctx SpecContext) {
		s := lost(ctx, failingOver(api.FailoverHold))
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(phase(ctx, s)).Should(HavePrefix("Terminating: being deleted: eu is unreachable"))
		Expect(placedIn(ctx, s)()).To(Equal("eu@1"))
		declareFenced(ctx, eu)
		Eventually(placedIn(ctx, s)).Should(BeEmpty())
		settled()
		Expect(leftIn(ctx, s)()).To(HaveLen(1), "it may be found there yet")
		mc := &api.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}}
		Expect(admin.Delete(ctx, mc)).To(Succeed())
		Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(mc), mc) }).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Eventually(gone(ctx, s)).Should(BeTrue())
	})

	It("or was rescheduled blocks the removal of a member until that is declared fenced", func(ctx SpecContext) {
		s := lost(ctx)
		Eventually(placedIn(ctx, s)).Should(Equal("us@2"))
		running(ctx, s)
		mc := &api.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}}
		Expect(admin.Delete(ctx, mc)).To(Succeed())
		settled()
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(mc), mc)).To(Succeed())
		Expect(leftIn(ctx, s)()).To(HaveLen(1))
		declareFenced(ctx, eu)
		Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(mc), mc) }).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Eventually(leftIn(ctx, s)).Should(BeEmpty())
		Expect(placedIn(ctx, s)()).To(Equal("us@2"))
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(gone(ctx, s)).Should(BeTrue())
	})
})
