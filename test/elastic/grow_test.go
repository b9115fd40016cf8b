package elastic

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("A member without nodes", func() {
	It("adds nodes for the sessions that are placed there, up to maxNodes, and its node group says so", func(ctx SpecContext) {
		start(ctx, growing(eu, pool("desktops")))
		declare(ctx, eu, v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", MaxNodes: ptr.To[int32](2)})
		template(ctx, "browser", "5")
		createAll(ctx, 8, "grow", "browser") // three fit on a node of 15.9 cores
		Eventually(ctx, counted(running)).WithTimeout(specTimeout / 2).Should(Equal(6))

		waits := func(s *v1alpha1.VDISession) bool {
			c := scheduled(s)
			return c != nil && c.Reason == v1alpha1.ReasonUnschedulable
		}
		Eventually(ctx, counted(func(s *v1alpha1.VDISession) bool {
			return waits(s) && strings.Contains(scheduled(s).Message, "node group desktops has 2 of 2: raise maxNodes")
		})).Should(Equal(2))
		Expect(sessions(ctx, func(s *v1alpha1.VDISession) bool { return scheduled(s).Reason == v1alpha1.ReasonPlacedOnNewNode })).NotTo(BeEmpty())
		for _, s := range sessions(ctx, running) {
			Expect(s.Status.Epoch).To(Equal(int64(1)), "%s was moved", s.Name)
		}
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Full: 2 nodes, 0 provisioning, 0 growable"))
		claims, err := fleet.Member(eu).ControlPlane.Karpenter.NodePools.NodeClaims(ctx, "desktops")
		Expect(err).NotTo(HaveOccurred())
		Expect(claims).To(HaveLen(2))

		declare(ctx, eu, v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", MaxNodes: ptr.To[int32](3)})
		Eventually(ctx, counted(running)).Should(Equal(8))
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Full: 3 nodes, 0 provisioning, 0 growable"))
	}, NodeTimeout(specTimeout))
})

func scheduled(s *v1alpha1.VDISession) *metav1.Condition {
	return meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled)
}

// groupOf returns the state of a member's node group as its status shows it.
func groupOf(member, name string) func(context.Context) string {
	return func(ctx context.Context) string {
		m := &v1alpha1.MemberCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: member}, m)).To(Succeed())
		for _, g := range m.Status.NodeGroups {
			if g.Name == name {
				return fmt.Sprintf("%s: %d nodes, %d provisioning, %d growable", g.State, g.Nodes, g.Provisioning, g.Growable)
			}
		}
		return "none"
	}
}
