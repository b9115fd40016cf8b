package placement

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("Pending sessions", func() {
	It("are placed tenant by tenant: three hundred of one do not block the one of another", func(ctx SpecContext) {
		p := newPool("fair")
		wide := p.add(ctx, eu, node{free: "500m", used: "40"})
		p.add(ctx, us, pieces("500m", "500m")...)
		p.churn()
		desktop := p.template(ctx, "fair")
		Eventually(ctx, slots(us, desktop)).Should(BeZero())

		createAll(ctx, many(300, "burst", desktop))
		single := create(ctx, session("single", desktop, in(teamB)))
		Eventually(ctx, seen.count(waits)).Should(Equal(301))

		By("making capacity for forty of them")
		p.removePod(ctx, eu, wide[0])
		Eventually(ctx, seen.count(running)).Should(Equal(40))
		order := seen.orderSoFar()
		Expect(order).To(HaveLen(40))
		// Each of the hub's sixteen workers may have one of the other tenant in progress.
		Expect(slices.Index(order, single.Name)).To(And(BeNumerically(">=", 0), BeNumerically("<", 20)), "its place among those placed: %v", order)
		Expect(seen.count(waits)()).To(Equal(261))
	}, SpecTimeout(specTimeout))

	It("get the last slot by their priority", specs.Smoke, func(ctx SpecContext) {
		p := newPool("last-slot")
		p.add(ctx, eu, pieces("1500m", "500m")...)
		p.churn()
		desktop := p.template(ctx, "last-slot")
		Eventually(ctx, slots(eu, desktop)).Should(BeEquivalentTo(1))
		first := create(ctx, session("first", desktop))
		Eventually(ctx, member(first)).Should(Equal(eu))

		low := create(ctx, session("low", desktop, priority(-10)))
		high := create(ctx, session("high", desktop, in(teamB), priority(50)))
		middle := create(ctx, session("middle", desktop, in(teamC), priority(10)))
		Eventually(ctx, seen.count(waits)).Should(Equal(3))
		end(ctx, first)
		Eventually(ctx, member(high)).WithTimeout(byEvent).Should(Equal(eu))
		Expect(seen.count(waits)()).To(Equal(2))
		end(ctx, high)
		Eventually(ctx, member(middle)).WithTimeout(byEvent).Should(Equal(eu))
		end(ctx, middle)
		Eventually(ctx, member(low)).WithTimeout(byEvent).Should(Equal(eu))
		Expect(seen.orderSoFar()).To(Equal([]string{"first", "high", "middle", "low"}))
	}, SpecTimeout(specTimeout))
})
