package elastic

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
)

var _ = Describe("A member whose nodes are stuck", Label(long), func() {
	It("loses its sessions after maxProvisioningTime of their policy, or once its node group has timed out, and no session has two Pods", func(ctx SpecContext) {
		// Twice the usual time of 10 s is less than the timeout, which counts then.
		startWith(ctx, []string{"--node-group-provisioning-timeout=45s"}, growing(eu, pool("desktops")), static(us, 2))
		pools := fleet.Member(eu).ControlPlane.Karpenter.NodePools
		Expect(pools.SetFaults(ctx, "desktops", karpenter.Faults{Registration: karpenter.Never})).To(Succeed())
		group := desktops(10)
		group.ProvisioningTime = "10s"
		declare(ctx, eu, group)
		prefer(ctx, eu)
		prefer(ctx, eu, ofTemplate("impatient"), func(p *v1alpha1.PlacementPolicySpec) { p.MaxProvisioningTime = "20s" })
		template(ctx, "patient", "2") // seven fit on a node
		template(ctx, "impatient", "2")
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 10 growable"))

		createAll(ctx, 7, "impatient", "impatient")
		createAll(ctx, 7, "patient", "patient")
		Eventually(ctx, counted(both(called("impatient"), runningIn(us)))).Should(Equal(7))
		least, most := placedAfter(ctx, "impatient")
		AddReportEntry("the impatient were moved", least.String()+" to "+most.String())
		Expect(least).To(BeNumerically(">=", 20*time.Second))
		Expect(most).To(BeNumerically("<=", 30*time.Second))
		Expect(notes(v1alpha1.EventMoved, "impatient-")(ctx)).To(HaveEach(ContainSubstring("within maxProvisioningTime")))
		Expect(groupOf(eu, "desktops")(ctx)).To(HavePrefix("Available: 0 nodes, "), "its nodes are still in time")
		Expect(counted(both(called("patient"), placedIn(eu)))(ctx)).To(Equal(7))

		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Exhausted: 0 nodes, 0 provisioning, 0 growable"))
		Expect(reasonOf(eu, "desktops")(ctx)).To(And(HavePrefix("ProvisioningTimeout: "), ContainSubstring("did not become usable within 45s")))
		Eventually(ctx, counted(both(called("patient"), runningIn(us)))).Should(Equal(7))
		least, most = placedAfter(ctx, "patient")
		AddReportEntry("the patient were moved", least.String()+" to "+most.String())
		Expect(least).To(BeNumerically(">=", 45*time.Second))
		Expect(most).To(BeNumerically("<=", 65*time.Second))
		Expect(notes(v1alpha1.EventMoved, "patient-")(ctx)).To(HaveEach(ContainSubstring("adds no node for its Pod")))
		expectEpoch(ctx, "impatient", 2)
		expectEpoch(ctx, "patient", 2)

		pods := podsOf(eu, us)
		Expect(pods).To(HaveLen(28), "each session had a Pod in both members")
		Expect(overlapping(pods)).To(BeEmpty())
	}, NodeTimeout(specTimeout))
})
