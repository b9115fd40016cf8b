package elastic

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/clusterautoscaler"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

var _ = Describe("A member with cluster-autoscaler", Label(long), func() {
	It("grows by it, loses the sessions that its cloud has no capacity for, and gets none for new nodes while its status is old or absent", func(ctx SpecContext) {
		start(ctx, harness.MemberSpec{Name: eu, Region: eu, Zone: eu + "-a", ClusterAutoscaler: &clusterautoscaler.Options{
			Backoff: 20 * time.Second,
			Groups: []clusterautoscaler.Group{{Name: "asg-1", MaxSize: 4, Delay: 2 * time.Second,
				Node: kwok.NodeGroup{Labels: map[string]string{"pool": "desktops"}}}},
		}}, static(us, 3))
		autoscaler := fleet.Member(eu).ControlPlane.ClusterAutoscaler
		shape := standard16()
		shape.Labels = map[string]string{"pool": "desktops"}
		declare(ctx, eu, v1alpha1.NodeGroup{Name: "desktops", ClusterAutoscalerGroup: "asg-1", Node: shape})
		prefer(ctx, eu)
		prefer(ctx, eu, func(p *v1alpha1.PlacementPolicySpec) {
			p.Match.Users, p.Precedence, p.RequiredRegions, p.Overflow = []string{"stays-0@example.com"}, 10, []string{eu}, nil
		})
		template(ctx, "browser", "5") // three fit on a node
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 4 growable"))

		createAll(ctx, 6, "first", "browser")
		Eventually(ctx, counted(both(called("first"), runningIn(eu)))).Should(Equal(6))
		expectEpoch(ctx, "first", 1)
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 2 nodes, 0 provisioning, 2 growable"))

		autoscaler.SetFault("asg-1", clusterautoscaler.Fault{ErrorCode: "QUOTA_EXCEEDED", ErrorMessage: "Quota 'CPUS' exceeded"})
		createAll(ctx, 1, "stays", "browser")
		createAll(ctx, 3, "moved", "browser")
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Exhausted: 2 nodes, 0 provisioning, 0 growable"))
		Expect(reasonOf(eu, "desktops")(ctx)).To(Equal("InsufficientCapacity: Quota 'CPUS' exceeded"))
		Eventually(ctx, counted(both(called("moved"), runningIn(us)))).Should(Equal(3))
		Expect(notes(v1alpha1.EventMoved, "moved-")(ctx)).To(And(HaveLen(3), HaveEach(ContainSubstring("adds no node for its Pod"))))

		// The one that must stay is pending through the backoff, and gets the node that is added after it.
		Expect(podEvents(eu, "stays-0")(ctx)).To(ContainElement(ContainSubstring("1 in backoff after failed scale-up")))
		autoscaler.SetFault("asg-1", clusterautoscaler.Fault{})
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 3 nodes, 0 provisioning, 1 growable"), "after its backoff")
		Eventually(ctx, counted(both(called("stays"), runningIn(eu)))).Should(Equal(1))
		Eventually(ctx, notes(v1alpha1.EventNodeGroupRecovered, eu)).Should(HaveLen(1))
		autoscaler.Kill()
		setLastUpdated(ctx, eu, time.Now().Add(-3*time.Minute+2*time.Second))
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Unknown: 3 nodes, 0 provisioning, 0 growable"))
		Expect(reasonOf(eu, "desktops")(ctx)).To(HavePrefix("SourceNotFound: cluster-autoscaler has not written its status since "))
		autoscaler.Resume()
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 3 nodes, 0 provisioning, 1 growable"))

		autoscaler.Kill()
		Expect(fleet.Member(eu).ControlPlane.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).
			Delete(ctx, statusName, metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Unknown: 3 nodes, 0 provisioning, 0 growable"))
		Expect(reasonOf(eu, "desktops")(ctx)).To(Equal("SourceNotFound: the member has no ConfigMap kube-system/cluster-autoscaler-status"))
		createAll(ctx, 4, "spared", "browser") // two fit on the third node
		Eventually(ctx, counted(both(called("spared"), runningIn(us)))).Should(Equal(2))
		Eventually(ctx, counted(both(called("spared"), runningIn(eu)))).Should(Equal(2))
		expectEpoch(ctx, "spared", 1)

		autoscaler.Resume()
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 3 nodes, 0 provisioning, 1 growable"))
		createAll(ctx, 3, "after", "browser")
		Eventually(ctx, counted(both(called("after"), runningIn(eu)))).Should(Equal(3))
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Full: 4 nodes, 0 provisioning, 0 growable"))
		Expect(counted(both(called("first"), runningIn(eu)))(ctx)).To(Equal(6), "nothing that runs has ended")
		Expect(overlapping(podsOf(eu, us))).To(BeEmpty())
	}, NodeTimeout(specTimeout))
})

// podEvents returns the messages of the events about the Pods of a session in a member.
func podEvents(member, session string) func(context.Context) []string {
	return func(ctx context.Context) (out []string) {
		list, err := fleet.Member(member).ControlPlane.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Pod"})
		Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].InvolvedObject.Name, session+"-") {
				out = append(out, list.Items[i].Message)
			}
		}
		return out
	}
}

const statusName = "cluster-autoscaler-status"

// setLastUpdated sets the time at which cluster-autoscaler has written its status, as if it had been dead since.
func setLastUpdated(ctx context.Context, member string, at time.Time) {
	GinkgoHelper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, nodegroup.AnnotationLastUpdated,
		at.UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST"))
	_, err := fleet.Member(member).ControlPlane.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).
		Patch(ctx, statusName, types.MergePatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}
