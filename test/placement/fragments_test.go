package placement

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("Fragmented capacity", func() {
	It("does not count: two cores are not placed where every node has one", func(ctx SpecContext) {
		p := newPool("pieces")
		singles := p.add(ctx, eu, pieces("1500m", "1500m", "1500m", "1500m", "1500m", "1500m", "1500m", "1500m")...)
		p.add(ctx, us, pieces("2500m")...)
		p.churn()
		desktop := p.template(ctx, "two-cores", requesting("2"))
		Eventually(ctx, slots(us, desktop)).Should(BeEquivalentTo(1))

		first := create(ctx, session("first", desktop, near(eu)))
		Eventually(ctx, member(first)).Should(Equal(us))
		second := create(ctx, session("second", desktop, near(eu)))
		expectPending(ctx, second, "cpu (largest free on a node")
		Expect(why(second)(ctx)).To(And(HavePrefix(v1alpha1.ReasonUnschedulable), ContainSubstring("requested 2")))

		By("removing another Pod, which makes one node of two cores")
		p.removePod(ctx, eu, singles[0])
		Eventually(ctx, member(second)).WithTimeout(byEvent).Should(Equal(eu))
	}, SpecTimeout(specTimeout))
})

var _ = Describe("A session for a GPU that no member has", func() {
	It("is pending and blocks no other, and is placed where one appears", func(ctx SpecContext) {
		p := newPool("gpus")
		p.add(ctx, eu, pieces("2500m", "500m")...)
		p.add(ctx, us, pieces("1500m", "1500m")...)
		p.churn()
		plain := p.template(ctx, "no-gpu")
		accelerated := p.template(ctx, "one-gpu", func(t *v1alpha1.TemplateSpec) {
			t.Resources.Default["nvidia.com/gpu"] = *quantity("1")
		})
		Eventually(ctx, slots(eu, plain)).Should(BeEquivalentTo(2))
		Eventually(ctx, slots(us, plain)).Should(BeEquivalentTo(2))

		first := create(ctx, session("for-a-gpu", accelerated, priority(100)))
		expectPending(ctx, first, v1alpha1.UnavailableResource+" (no node has enough nvidia.com/gpu")
		others := many(4, "plain", plain)
		createAll(ctx, others)
		Eventually(ctx, seen.count(running)).Should(Equal(4), "sessions behind the one for a GPU")
		Expect(why(first)(ctx)).To(ContainSubstring(v1alpha1.UnavailableResource))

		p.add(ctx, us, node{free: "1500m", gpus: 1})
		Eventually(ctx, member(first)).WithTimeout(byEvent).Should(Equal(us))
	}, SpecTimeout(specTimeout))
})
