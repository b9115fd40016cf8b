package elastic

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("A template that Karpenter rejects", Label(long), func() {
	It("does not count on the node group, which others make grow, until its NodePool changes", func(ctx SpecContext) {
		start(ctx, growing(eu, pool("desktops")))
		shape := standard16()
		shape.Labels = map[string]string{"display": "4k"} // which Karpenter does not set yet
		declare(ctx, eu, v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", MaxNodes: ptr.To[int32](10), Node: shape})
		template(ctx, "browser", "5")
		template(ctx, "graphics", "5")
		selectNodes(ctx, "graphics", shape.Labels)
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 10 growable"))

		createAll(ctx, 3, "rejected", "graphics")
		rejected := func(s *v1alpha1.VDISession) bool {
			c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady)
			return c != nil && c.Reason == v1alpha1.ReasonScaleUpFailed && strings.Contains(c.Message, "Karpenter adds none for this desktop")
		}
		Eventually(ctx, counted(rejected)).Should(Equal(3))
		createAll(ctx, 3, "served", "browser")
		Eventually(ctx, counted(running)).Should(Equal(3))
		available := Equal("Available: 1 nodes, 0 provisioning, 9 growable")
		Eventually(ctx, groupOf(eu, "desktops")).Should(available)
		Consistently(ctx, groupOf(eu, "desktops")).WithTimeout(70*time.Second).Should(available,
			"Pods that were rejected have no node for more than a minute, and do not exhaust the group")
		Expect(sessions(ctx, rejected)).To(HaveLen(3), "nothing else fits, so they stay")

		labeled := pool("desktops")
		labeled.Labels = shape.Labels
		Expect(fleet.Member(eu).ControlPlane.Karpenter.NodePools.Apply(ctx, labeled)).To(Succeed())
		Eventually(ctx, counted(running)).Should(Equal(6))
	}, NodeTimeout(specTimeout))
})

// selectNodes sets the node selector of a template.
func selectNodes(ctx SpecContext, name string, labels map[string]string) {
	GinkgoHelper()
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
	before := client.MergeFrom(t.DeepCopy())
	t.Spec.NodeSelector = labels
	Expect(hub.Patch(ctx, t, before)).To(Succeed())
}
