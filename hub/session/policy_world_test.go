package session_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func createPolicy(ctx context.Context, name string, change func(*api.PlacementPolicySpec)) *api.PlacementPolicy {
	GinkgoHelper()
	p := &api.PlacementPolicy{}
	p.Name = name
	change(&p.Spec)
	Expect(admin.Create(ctx, p)).To(Succeed())
	known(ctx, p)
	return p
}

var _ = Describe("A placement policy", func() {
	It("caps what it places, over a new leader and a suspension, and shows how many are pending", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu")
		join(ctx, "us")
		p := createPolicy(ctx, "lab", func(p *api.PlacementPolicySpec) {
			p.RequiredRegions, p.SessionCaps.PerUser = []string{"eu"}, ptr.To[int32](1)
		})
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		Expect(first.Status.Placement.Policy).To(Equal("lab"))

		second := create(ctx, "desktops", "second")
		Eventually(phase(ctx, second)).Should(Equal("Pending: policy lab has placed 1 sessions of user ann@example.com, and places at most 1 (sessionCaps.perUser): " +
			"end one of them, or raise spec.sessionCaps.perUser of policy lab"))
		Expect(reason(ctx, second, api.ConditionScheduled)(NewWithT(GinkgoT()))).To(Equal("False/PolicyCapReached"))
		running(ctx, create(ctx, "desktops", "of-another", func(s *api.SessionSpec) { s.User = "bob@example.com" }))
		numbers := func(g Gomega) []int32 {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			return []int32{p.Status.Sessions, p.Status.Placed, p.Status.Waiting, p.Status.Elsewhere}
		}
		Eventually(numbers).Should(Equal([]int32{3, 2, 1, 0}))
		edit(ctx, p, func() { p.Spec.RequiredRegions = []string{"us"} })
		Eventually(numbers).Should(Equal([]int32{3, 2, 1, 2}), "both are in eu, and stay there")
		Expect(now(ctx, first).Status.Placement).To(Equal(first.Status.Placement))
		edit(ctx, p, func() { p.Spec.RequiredRegions = nil })

		suspend(ctx, first)
		replaceHub()
		Eventually(phase(ctx, first)).Should(HavePrefix("Pending: suspended"))
		third := create(ctx, "desktops", "third")
		Eventually(reason(ctx, third, api.ConditionScheduled)).Should(Equal("False/PolicyCapReached"))
		resume(ctx, first)
		running(ctx, first)

		remove(ctx, third)
		remove(ctx, first)
		running(ctx, second)
	})

	It("allows its sessions to run again on a tainted member that it tolerates", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu")
		mc := &api.MemberCluster{}
		mc.Name = "eu"
		edit(ctx, mc, func() {
			mc.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "lab", Effect: corev1.TaintEffectNoSchedule}}
		})
		createPolicy(ctx, "lab", func(p *api.PlacementPolicySpec) {
			p.ClusterTolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		})
		s, _ := running(ctx, create(ctx, "desktops", "s"))
		suspend(ctx, s)
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: suspended"))
		resume(ctx, s)
		running(ctx, s)
	})
})
