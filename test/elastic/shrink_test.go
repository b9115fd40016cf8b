package elastic

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
)

var _ = Describe("A node group that shrinks", Label(long), func() {
	It("ends nothing that runs on other nodes when its maximum is lowered, a node is reclaimed or its NodePool is deleted; pending sessions move or state why they wait", func(ctx SpecContext) {
		start(ctx, growing(eu, pool("desktops")), static(us, 2))
		pools := fleet.Member(eu).ControlPlane.Karpenter.NodePools
		// The limit of the NodePool holds for the Pods of sessions that have run in the member too: the hub does
		// not send them again.
		limit := func(nodes int32) {
			limited := pool("desktops")
			limited.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(16*int64(nodes), resource.DecimalSI)}
			Expect(pools.Apply(ctx, limited)).To(Succeed())
			declare(ctx, eu, desktops(nodes))
		}
		limit(3)
		prefer(ctx, eu)
		template(ctx, "browser", "5") // three fit on a node
		template(ctx, "small", "1")
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 3 growable"))
		createAll(ctx, 9, "first", "browser")
		Eventually(ctx, counted(both(called("first"), runningIn(eu)))).Should(Equal(9))
		before := podsByNode(ctx, eu)
		Expect(before).To(HaveLen(3))

		By("lowering the limit below what exists")
		limit(2)
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Full: 3 nodes, 0 provisioning, 0 growable"))
		Expect(reasonOf(eu, "desktops")(ctx)).To(ContainSubstring("it has 3 of 2 nodes: raise maxNodes of the MemberCluster"))
		createAll(ctx, 1, "next", "browser")
		Eventually(ctx, counted(both(called("next"), runningIn(us)))).Should(Equal(1))
		expectEpoch(ctx, "next", 1)
		Expect(podsByNode(ctx, eu)).To(Equal(before))

		By("reclaiming a node")
		var lost string
		for lost = range before {
			break
		}
		reclaim(ctx, eu, lost)
		delete(before, lost)
		explains := func(s *v1alpha1.VDISession) bool { return strings.HasPrefix(podReady(s), v1alpha1.ReasonScaleUpFailed) }
		Eventually(ctx, counted(both(called("first"), explains))).Should(Equal(3), "they have run there, and wait for a node there")
		for _, s := range sessions(ctx, both(called("first"), explains)) {
			Expect(podReady(s)).To(ContainSubstring("it has 2 of 2 nodes: raise maxNodes of the MemberCluster"), s.Name)
		}
		Expect(counted(both(called("first"), runningIn(eu)))(ctx)).To(Equal(6))
		limit(20)
		Eventually(ctx, counted(both(called("first"), runningIn(eu)))).Should(Equal(9))
		expectEpoch(ctx, "first", 1)
		after := podsByNode(ctx, eu)
		Expect(after).To(HaveLen(3))
		for node, pods := range before {
			Expect(after).To(HaveKeyWithValue(node, pods))
		}

		By("deleting the NodePool under pending sessions")
		Expect(pools.SetFaults(ctx, "desktops", karpenter.Faults{Registration: karpenter.Never})).To(Succeed())
		createAll(ctx, 100, "pending", "small")
		provisioning := func(s *v1alpha1.VDISession) bool {
			return strings.HasPrefix(podReady(s), v1alpha1.ReasonNodeProvisioning)
		}
		Eventually(ctx, counted(both(called("pending"), placedIn(eu), provisioning))).Should(BeNumerically(">=", 90))
		Expect(pools.Delete(ctx, "desktops")).To(Succeed())
		Eventually(ctx, groupOf(eu, "desktops")).Should(HavePrefix("Unknown: "))
		Expect(reasonOf(eu, "desktops")(ctx)).To(HavePrefix("SourceNotFound: "))
		slots := 2*16 - 5 // of one core
		Eventually(ctx, counted(both(called("pending"), runningIn(us)))).Should(Equal(slots))
		left := sessions(ctx, both(called("pending"), func(s *v1alpha1.VDISession) bool { return !running(s) }))
		Expect(left).To(HaveLen(100 - slots))
		for _, s := range left {
			Expect(waitsFor(s)).To(HavePrefix("PodUnschedulable: No node fits the Pod: "), s.Name)
		}
		AddReportEntry("a session that stays pending", waitsFor(left[0]))
		Expect(counted(both(called("first"), runningIn(eu)))(ctx)).To(Equal(9))
		Expect(podsByNode(ctx, eu)).To(Equal(after))
		Expect(overlapping(podsOf(eu, us))).To(BeEmpty())
	}, NodeTimeout(specTimeout))
})

// waitsFor returns the condition that explains why a session does not run.
func waitsFor(s *v1alpha1.VDISession) string {
	if c := scheduled(s); c != nil && c.Status == metav1.ConditionFalse {
		return c.Reason + ": " + c.Message
	}
	return podReady(s)
}

// podsByNode returns the UIDs of the sessions' Pods that are bound in a member, by node and name.
func podsByNode(ctx context.Context, member string) map[string]map[string]types.UID {
	GinkgoHelper()
	list, err := fleet.Member(member).ControlPlane.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	out := map[string]map[string]types.UID{}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodRunning {
			continue
		}
		if out[p.Spec.NodeName] == nil {
			out[p.Spec.NodeName] = map[string]types.UID{}
		}
		out[p.Spec.NodeName][p.Name] = p.UID
	}
	return out
}

// reclaim removes a node as a cloud does that takes a spot instance back: its machine is gone, the controller
// of the cloud deletes its Node, and Karpenter's interruption controller its NodeClaim.
func reclaim(ctx context.Context, member, node string) {
	GinkgoHelper()
	cp := fleet.Member(member).ControlPlane
	found, err := cp.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(cp.LoseNode(ctx, node)).To(Succeed())
	// Karpenter removes its finalizer without a drain from the node of an instance that does not exist, which its
	// KWOK provider does not report.
	_, err = cp.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	err = cp.Client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	Expect(cp.Karpenter.NodePools.DeleteNodeClaim(ctx, found.Labels[corev1.LabelHostname])).To(Succeed())
}
