package elastic

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

var _ = Describe("A member whose cloud has no capacity", func() {
	It("loses its sessions to a member with free slots, each once, and gets no more of them", func(ctx SpecContext) {
		start(ctx, growing(eu, pool("desktops")),
			harness.MemberSpec{Name: us, Region: us, Zone: us + "-a", Nodes: []kwok.NodeGroup{{Count: 5, Region: us, Zone: us + "-a"}}})
		pools := fleet.Member(eu).ControlPlane.Karpenter.NodePools
		Expect(pools.SetFaults(ctx, "desktops", karpenter.Faults{InsufficientCapacity: "quota CPUS exceeded"})).To(Succeed())
		declare(ctx, eu, v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", MaxNodes: ptr.To[int32](10), Node: standard16()})
		Expect(hub.Create(ctx, &v1alpha1.PlacementPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "home-first"},
			Spec:       v1alpha1.PlacementPolicySpec{Overflow: []v1alpha1.OverflowTier{{Regions: []string{eu}}, {}}},
		})).To(Succeed())
		template(ctx, "browser", "1")
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 10 growable"))

		createAll(ctx, 20, "moved", "browser")
		Eventually(ctx, counted(placedIn(eu))).Should(BeNumerically(">", 0), "home comes first")
		Eventually(ctx, counted(runningIn(us))).Should(Equal(20))
		for _, s := range sessions(ctx, running) {
			Expect(s.Status.Epoch).To(BeNumerically("<=", 2), "%s was moved more than once", s.Name)
		}
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Exhausted: 0 nodes, 0 provisioning, 0 growable"))

		createAll(ctx, 20, "spared", "browser")
		Eventually(ctx, counted(runningIn(us))).Should(Equal(40))
		for _, s := range sessions(ctx, func(s *v1alpha1.VDISession) bool { return strings.HasPrefix(s.Name, "spared") }) {
			Expect(s.Status.Epoch).To(Equal(int64(1)), "%s was sent to a member that adds no node", s.Name)
		}
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
