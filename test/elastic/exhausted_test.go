package elastic

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
)

// backoff is how long an exhausted node group is not used at first, of which production has 5 minutes: so
// long that a second burst is placed before the group is tried again.
const backoff = 30 * time.Second

var _ = Describe("An exhausted node group", func() {
	It("loses its sessions to a member with free slots, each once, gets no more of them, and is used again once a probe has found capacity", func(ctx SpecContext) {
		startWith(ctx, []string{"--node-group-backoff=" + backoff.String()}, growing(eu, pool("desktops")), static(us, 7))
		pools := fleet.Member(eu).ControlPlane.Karpenter.NodePools
		Expect(pools.SetFaults(ctx, "desktops", karpenter.Faults{InsufficientCapacity: "quota CPUS exceeded"})).To(Succeed())
		declare(ctx, eu, desktops(10))
		prefer(ctx, eu)
		template(ctx, "browser", "1") // 15 fit on a node
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 10 growable"))

		createAll(ctx, 50, "moved", "browser")
		Eventually(ctx, counted(placedIn(eu))).Should(BeNumerically(">", 0), "home comes first")
		Eventually(ctx, counted(runningIn(us))).Should(Equal(50))
		took := ranAfter(ctx, "moved")
		AddReportEntry("the last session ran elsewhere after", took.String())
		Expect(took).To(BeNumerically("<=", 45*time.Second))
		expectEpoch(ctx, "moved", 2)
		Expect(groupOf(eu, "desktops")(ctx)).To(Equal("Exhausted: 0 nodes, 0 provisioning, 0 growable"))
		Expect(reasonOf(eu, "desktops")(ctx)).To(And(HavePrefix("InsufficientCapacity: "), ContainSubstring("InsufficientCapacityError")))
		Eventually(ctx, notes(v1alpha1.EventNodeGroupExhausted, eu)).Should(HaveLen(1))

		createAll(ctx, 50, "spared", "browser")
		Eventually(ctx, counted(runningIn(us))).Should(Equal(100))
		expectEpoch(ctx, "spared", 1)

		Expect(pools.SetFaults(ctx, "desktops", karpenter.Faults{})).To(Succeed())
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Exhausted: 0 nodes, 0 provisioning, 1 growable"), "one node is tried")
		createAll(ctx, 20, "probe", "browser")
		Eventually(ctx, counted(both(called("probe"), running))).Should(Equal(20))
		expectEpoch(ctx, "probe", 1)
		Expect(counted(runningIn(eu))(ctx)).To(And(BeNumerically(">", 0), BeNumerically("<=", 15)), "the probe's node")
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 1 nodes, 0 provisioning, 9 growable"))
		Eventually(ctx, notes(v1alpha1.EventNodeGroupRecovered, eu)).Should(ConsistOf(ContainSubstring("adds nodes again")))

		createAll(ctx, 20, "after", "browser")
		Eventually(ctx, counted(both(called("after"), runningIn(eu)))).Should(Equal(20))
		expectEpoch(ctx, "after", 1)
	}, NodeTimeout(specTimeout))
})

// standard16 is the shape of pool's nodes.
func standard16() v1alpha1.NodeShape {
	return v1alpha1.NodeShape{Allocatable: map[corev1.ResourceName]v1alpha1.NodeQuantity{"cpu": "15900m", "memory": "60Gi", "ephemeral-storage": "500Gi", "pods": "110"}}
}

func placedIn(member string) func(*v1alpha1.VDISession) bool {
	return func(s *v1alpha1.VDISession) bool {
		return s.Status.Placement != nil && s.Status.Placement.ClusterName == member
	}
}

func runningIn(member string) func(*v1alpha1.VDISession) bool {
	return func(s *v1alpha1.VDISession) bool { return running(s) && placedIn(member)(s) }
}
