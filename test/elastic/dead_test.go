package elastic

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("A member whose autoscaler is dead", Label(long), func() {
	It("loses its sessions to a member with free slots after a minute, shows why to those that must stay, and adds nodes again once its autoscaler runs", func(ctx SpecContext) {
		start(ctx, growing(eu, pool("desktops")), static(us, 2))
		declare(ctx, eu, desktops(10))
		prefer(ctx, eu)
		prefer(ctx, eu, ofTemplate("resident"), func(p *v1alpha1.PlacementPolicySpec) { p.RequiredRegions, p.Overflow = []string{eu}, nil })
		template(ctx, "browser", "1")
		template(ctx, "resident", "1")
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 10 growable"))

		autoscaler := fleet.Member(eu).ControlPlane.Karpenter
		Expect(autoscaler.Kill()).To(Succeed())
		createAll(ctx, 20, "moved", "browser")
		createAll(ctx, 3, "stays", "resident")
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Exhausted: 0 nodes, 0 provisioning, 0 growable"))
		Expect(reasonOf(eu, "desktops")(ctx)).To(HavePrefix("NotTriggered: the autoscaler has added no node within 1m0s"))
		Eventually(ctx, counted(both(called("moved"), runningIn(us)))).Should(Equal(20))
		least, most := placedAfter(ctx, "moved")
		AddReportEntry("sessions were moved", least.String()+" to "+most.String())
		Expect(least).To(BeNumerically(">=", 59*time.Second), "the autoscaler has its time")
		Expect(most).To(BeNumerically("<=", 75*time.Second))
		expectEpoch(ctx, "moved", 2)

		Expect(counted(both(called("stays"), func(s *v1alpha1.VDISession) bool { return podReady(s) != "" }))(ctx)).To(Equal(3))
		for _, s := range sessions(ctx, called("stays")) {
			Expect(podReady(s)).To(And(HavePrefix("ScaleUpFailed: Node group desktops adds no node: NotTriggered"),
				ContainSubstring("next attempt at"), ContainSubstring("check the autoscaler")), s.Name)
		}
		Expect(autoscaler.Start()).To(Succeed())
		Expect(autoscaler.WaitReady(ctx)).To(Succeed())
		Eventually(ctx, groupOf(eu, "desktops")).WithTimeout(time.Minute).Should(Equal("Available: 1 nodes, 0 provisioning, 9 growable"))
		Eventually(ctx, counted(both(called("stays"), runningIn(eu)))).Should(Equal(3))
		expectEpoch(ctx, "stays", 1)
		Eventually(ctx, notes(v1alpha1.EventNodeGroupRecovered, eu)).Should(HaveLen(1))

		createAll(ctx, 20, "after", "browser")
		Eventually(ctx, counted(both(called("after"), runningIn(eu)))).Should(Equal(20))
	}, NodeTimeout(specTimeout))
})
