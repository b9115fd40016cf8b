package session_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

var _ = Describe("A session whose Pod fits no node where it is placed", func() {
	// crowded reports more capacity than any other member, although no node fits.
	crowded := func(a *agent) { a.misfits, a.slots = true, 1000 }

	It("is moved to another member, once its stop is confirmed, and counted", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu", crowded, func(a *agent) { a.holdStops = true })
		us := join(ctx, "us", func(a *agent) { a.slots = 10 })
		before := counted("vdi_hub_sessions_moved_total")
		s := create(ctx, "desktops", "misfit")
		Eventually(reason(ctx, s, api.ConditionPodReady)).Should(Equal("False/PodUnschedulable"))
		Eventually(phase(ctx, s)).Should(Equal("Pending: waiting until eu has confirmed that nothing of it runs"))
		Consistently(us.sessions).Should(BeEmpty())
		Expect(now(ctx, s).Status.Releasing).To(ConsistOf(api.Release{ClusterName: "eu", ClusterUID: eu.uid, Epoch: 1, FailoverMode: api.FailoverRestart}))
		eu.finishStops()
		s, at := running(ctx, s)
		Expect(at.name).To(Equal("us"))
		Expect(s.Status.Epoch).To(Equal(int64(2)))
		Expect(s.Status.Releasing).To(BeEmpty())
		Expect(counted("vdi_hub_sessions_moved_total")).To(Equal(before + 1))
		Eventually(eventCount(ctx, s, api.EventMoved)).Should(Equal(1))
		Expect(eu.sessions()).To(BeEmpty())
	})

	It("stays while no other member has capacity, and moves as soon as one has", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu", crowded)
		us := join(ctx, "us", func(a *agent) { a.slots = 0 })
		s := create(ctx, "desktops", "misfit")
		Eventually(reason(ctx, s, api.ConditionPodReady)).Should(Equal("False/PodUnschedulable"))
		settled()
		Expect(now(ctx, s).Status.Placement.ClusterName).To(Equal("eu"))
		us.set(func() { us.slots = 1 })
		us.send(func(m link.Member) { m.Capacity(us.report()) })
		_, at := running(ctx, s)
		Expect(at.name).To(Equal("us"))
	})

	It("takes an unused home with it, and reports what is left behind", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		eu := join(ctx, "eu", crowded)
		us := join(ctx, "us", func(a *agent) { a.slots = 10 })
		s, at := running(ctx, create(ctx, "desktops", "misfit"))
		Expect(at.name).To(Equal("us"))
		h := &api.VDIHome{}
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Status.Home.Name}, h)).To(Succeed())
		Expect(h.Spec.ClusterUID).To(Equal(us.uid))
		Expect(h.Status.LeftBehind).To(HaveLen(1))
		Expect(h.Status.LeftBehind[0].ClusterUID).To(Equal(eu.uid))
	})

	It("stays where its home is, with what was done in it", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		eu := join(ctx, "eu")
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		Expect(admin.Delete(ctx, first)).To(Succeed())
		Eventually(gone(ctx, first)).Should(BeTrue())
		eu.set(func() { eu.misfits = true })
		join(ctx, "us")
		second := create(ctx, "desktops", "second")
		Eventually(reason(ctx, second, api.ConditionPodReady)).Should(Equal("False/PodUnschedulable"))
		settled()
		Expect(now(ctx, second).Status.Placement.ClusterName).To(Equal("eu"))
		Expect(now(ctx, second).Status.Epoch).To(Equal(int64(1)))
	})
})
