package session_test

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

const leaseLength = 3 * time.Minute

// theHub is the hub whose lease the next agent has, if any.
var theHub *leasingHub

// leasingHub renews leases when the test sets it, on a clock that the test moves.
type leasingHub struct {
	by     atomic.Int64
	keeper *fence.Keeper
}

func (h *leasingHub) now() boottime.Instant {
	by := time.Duration(h.by.Load())
	return boottime.Instant{Boot: boottime.Now() + by, Wall: time.Now().Add(by)}
}

func (h *leasingHub) lease(mgr ctrl.Manager, r *session.Reconciler) {
	h.keeper = fence.NewKeeper(mgr.GetAPIReader(), mgr.GetClient(), namespace, 0.05)
	h.keeper.Clock = h.now
	Expect(mgr.Add(h.keeper)).To(Succeed())
	r.Lease, r.GuardKey = h.keeper, func() string { return "key" }
}

// renew renews the agent's lease.
func (h *leasingHub) renew(ctx context.Context) {
	GinkgoHelper()
	Expect(h.keeper.Loaded(ctx)).To(BeTrue())
	h.keeper.Sending()(leaseLength)
}

func (h *leasingHub) wait(d time.Duration) { h.by.Add(int64(d)) }

// withHub starts an agent that creates guards, with a hub that grants leases. Such a test is
// Serial.
func withHub(guards bool) *leasingHub {
	theHub = &leasingHub{}
	withAgent(func(o *session.Options) {
		if guards {
			o.Guard = &render.Guard{Image: "agent:1", LeaseURL: "http://agent:8082", Port: 8079, TimeFactor: 1}
		}
	})
	hub := theHub
	DeferCleanup(func(ctx SpecContext) {
		theHub = nil
		Expect(client.IgnoreNotFound(admin.Delete(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fence.ConfigMapName}}))).To(Succeed())
	})
	return hub
}

// restart restarts the agent with the same options.
func (h *leasingHub) restart(guards bool) {
	stopAgent()
	startAgent(func(o *session.Options) {
		if guards {
			o.Guard = &render.Guard{Image: "agent:1", LeaseURL: "http://agent:8082", Port: 8079, TimeFactor: 1}
		}
	})
}

func fencedSession(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverFence }

// affirm is the hub's confirmation that it did not reschedule the session.
func affirm(ctx context.Context, a *api.SessionAssignment) {
	GinkgoHelper()
	edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Lapse = a.Status.Lapse })
}

func expectLapse(ctx context.Context, a *api.SessionAssignment, lapse int64) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
		g.Expect(a.Status.Lapse).To(Equal(lapse))
	}).Should(Succeed())
}

func expectStopped(ctx context.Context, a *api.SessionAssignment) {
	GinkgoHelper()
	expectGone(ctx, podOf(a))
	expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonLeaseExpired, "hub")
}

// keepsStopped checks that no desktop comes back.
func keepsStopped(ctx context.Context, a *api.SessionAssignment) {
	GinkgoHelper()
	Consistently(ctx, func() error {
		return admin.Get(ctx, client.ObjectKeyFromObject(a), &corev1.Pod{})
	}).WithTimeout(time.Second).ShouldNot(Succeed())
}

var _ = Describe("A fenced session", Serial, func() {
	It("stops when the lease is over, and runs again once the hub has affirmed it", func(ctx SpecContext) {
		hub := withHub(true)
		hub.renew(ctx)
		a := running(ctx, fencedSession)
		Expect(render.Guarded(get(ctx, podOf(a)))).To(BeTrue())
		Expect(a.Status.Guarded).To(BeTrue())
		Expect(a.Status.Lapse).To(BeZero(), "there was none while it was here")
		other := running(ctx)

		hub.wait(leaseLength)
		expectStopped(ctx, a)
		Expect(expectUsed(ctx, a)).To(BeNumerically("<", leaseLength), "its time stands still")
		Expect(a.Status.Guarded).To(BeTrue())
		Eventually(ctx, events(ctx, a)).Should(ContainElement(api.EventWaiting))
		Expect(get(ctx, podOf(other)).DeletionTimestamp).To(BeNil(), "a session that is not fenced")

		By("renewing the lease with the hub, which may have rescheduled it")
		hub.renew(ctx)
		expectLapse(ctx, a, 1)
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonLeaseExpired, "affirmed")
		keepsStopped(ctx, a)

		affirm(ctx, a)
		expectReady(ctx, a)
		Expect(a.Status.Lapse).To(BeEquivalentTo(1))
	}, SpecTimeout(time.Minute))

	It("is neither ended nor kept by a restart of the agent", func(ctx SpecContext) {
		hub := withHub(true)
		hub.renew(ctx)
		a := running(ctx, fencedSession)
		pod := get(ctx, podOf(a)).UID
		hub.wait(leaseLength / 2)
		hub.restart(true)
		Consistently(ctx, func() any { return get(ctx, podOf(a)).UID }).WithTimeout(time.Second).Should(Equal(pod))

		By("crashing, and restarting once the lease is over")
		stopAgent()
		hub.wait(leaseLength / 2)
		hub.restart(true)
		expectStopped(ctx, a)

		By("crashing between the lapse and the hub's return")
		hub.restart(true)
		hub.renew(ctx)
		expectLapse(ctx, a, 1)
		keepsStopped(ctx, a)

		By("crashing before the hub affirms it")
		hub.restart(true)
		keepsStopped(ctx, a)
		affirm(ctx, a)
		expectReady(ctx, a)
	}, SpecTimeout(time.Minute))

	It("that lapses twice is not resumed by the first affirmation", func(ctx SpecContext) {
		hub := withHub(true)
		hub.renew(ctx)
		a := running(ctx, fencedSession)
		hub.wait(leaseLength)
		hub.renew(ctx)
		expectLapse(ctx, a, 1)
		hub.wait(leaseLength)
		hub.renew(ctx)
		expectLapse(ctx, a, 2)
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Lapse = 1 })
		keepsStopped(ctx, a)
		affirm(ctx, a)
		expectReady(ctx, a)
	}, SpecTimeout(time.Minute))

	It("that came after a lapse needs no affirmation but its assignment", func(ctx SpecContext) {
		hub := withHub(true)
		hub.renew(ctx)
		a := running(ctx, fencedSession)
		hub.wait(leaseLength)
		expectStopped(ctx, a)
		hub.renew(ctx)
		expectLapse(ctx, a, 1)
		// One that comes while assignments are marked may be marked too.
		Eventually(ctx, func() fence.State { return hub.keeper.Status().State }).Should(Equal(fence.Valid))
		fresh := running(ctx, fencedSession)
		Expect(fresh.Status.Lapse).To(BeZero())
		Expect(fresh.Status.Guarded).To(BeTrue())
	}, SpecTimeout(time.Minute))

	It("is not stopped where guards are not configured", func(ctx SpecContext) {
		hub := withHub(false)
		hub.renew(ctx)
		a := running(ctx, fencedSession)
		Expect(a.Status.Guarded).To(BeFalse())
		hub.wait(2 * leaseLength)
		Consistently(ctx, func() any { return get(ctx, podOf(a)).DeletionTimestamp }).WithTimeout(time.Second).Should(BeNil())

		By("getting a guard with its next Pod, and not before")
		hub.restart(true)
		hub.renew(ctx)
		Consistently(ctx, func() any { return get(ctx, podOf(a)).DeletionTimestamp }).WithTimeout(time.Second).Should(BeNil())
		Expect(admin.Delete(ctx, podOf(a))).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
			g.Expect(a.Status.Guarded).To(BeTrue())
		}).Should(Succeed())
		expectReady(ctx, a)
		Expect(render.Guarded(get(ctx, podOf(a)))).To(BeTrue())

		By("never being made without one again")
		hub.restart(false)
		Expect(admin.Delete(ctx, podOf(a))).To(Succeed())
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonApplyFailed, "--guard-image")
		keepsStopped(ctx, a)
	}, SpecTimeout(time.Minute))
})

var _ = Describe("A held session", Serial, func() {
	It("starts behind a gate where a quota fits its desktop only, and keeps running whatever is requested of the hub", func(ctx SpecContext) {
		withHub(true)
		const tight = "desktops-tight"
		Expect(member.EnsureNamespace(ctx, tight, restricted)).To(Succeed())
		hard := corev1.ResourceList{}
		for name, amount := range assignment().Spec.Desktop.Resources {
			hard["requests."+name], hard["limits."+name] = amount, amount
		}
		Expect(hard).NotTo(BeEmpty())
		Expect(admin.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: tight, Name: "one"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
		})).To(Succeed())
		a := running(ctx, func(a *api.SessionAssignment) { a.Namespace, a.Spec.FailoverMode = tight, api.FailoverHold })
		pod := get(ctx, podOf(a))
		Expect(render.Gate(pod)).NotTo(BeNil())
		Expect(a.Status.Guarded).To(BeFalse())

		before := a.DeepCopy()
		a.Status.Lapse = 4
		Expect(admin.Status().Patch(ctx, a, client.MergeFrom(before))).To(Succeed())
		stays(ctx, a)
		Expect(get(ctx, podOf(a)).UID).To(Equal(pod.UID))
	}, SpecTimeout(time.Minute))
})

var _ = Describe("A session that the hub places again where it is", func() {
	It("keeps its desktop, which gets the new epoch", func(ctx SpecContext) {
		a := running(ctx)
		pod := get(ctx, podOf(a))
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Epoch, a.Spec.Lapse = a.Spec.Epoch+2, 7 })
		Eventually(ctx, func(g Gomega) {
			now := get(ctx, podOf(a))
			g.Expect(now.UID).To(Equal(pod.UID))
			g.Expect(now.DeletionTimestamp).To(BeNil())
			g.Expect(now.Annotations).To(HaveKeyWithValue(api.AnnotationEpoch, "3"))
		}).Should(Succeed())
		stays(ctx, a)
	}, SpecTimeout(time.Minute))
})
