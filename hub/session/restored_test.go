package session_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

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
})
