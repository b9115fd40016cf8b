package elastic

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

var _ = Describe("The limit of a node group", Label(long), func() {
	// Karpenter does not enforce a limit of nodes within one batch of Pods, and here it has none: the
	// hub sends no more Pods than the limited nodes hold.
	It("is kept in a burst of a thousand sessions, and used whole", func(ctx SpecContext) {
		const perNode, creates = 5, 1000 // of 3 cores, on a node of 15.9
		slow := pool("desktops")
		slow.RegistrationDelay = 5 * time.Second
		start(ctx, growing(eu, slow))
		limit := func(nodes int32) {
			declare(ctx, eu, v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", MaxNodes: ptr.To(nodes)})
		}
		limit(10)
		claims := recordClaims(ctx, eu, "desktops")
		template(ctx, "browser", "3")
		createAll(ctx, creates, "burst", "browser")

		Eventually(ctx, counted(isPending("node group desktops has 10 of 10: raise maxNodes of the MemberCluster or end sessions"))).
			WithTimeout(specTimeout / 2).Should(Equal(creates - 10*perNode))
		Eventually(ctx, counted(running)).Should(Equal(10 * perNode))
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Full: 10 nodes, 0 provisioning, 0 growable"))
		Expect(claims.atMost()).To(Equal(10))

		limit(12)
		Eventually(ctx, counted(isPending("node group desktops has 12 of 12"))).Should(Equal(creates - 12*perNode))
		Eventually(ctx, counted(running)).Should(Equal(12 * perNode))
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Full: 12 nodes, 0 provisioning, 0 growable"))
		Expect(claims.atMost()).To(Equal(12))
		Expect(claims.inAll()).To(Equal(12))
		Expect(moves(ctx)).To(BeEmpty())
	}, NodeTimeout(specTimeout))
})

// isPending reports whether a session is pending, with a message that contains this.
func isPending(message string) func(*v1alpha1.VDISession) bool {
	return func(s *v1alpha1.VDISession) bool {
		c := scheduled(s)
		return s.Status.Placement == nil && c != nil && c.Reason == v1alpha1.ReasonUnschedulable && strings.Contains(c.Message, message)
	}
}

var _ = Describe("The limit of a NodePool", Label(long), func() {
	It("is kept by templates of three sizes on shared nodes, and used whole, and no session is moved twice", func(ctx SpecContext) {
		const creates = 60 // of each template
		slow := pool("desktops")
		slow.RegistrationDelay = 5 * time.Second
		slow.Limits = cores("96")
		start(ctx, growing(eu, slow), static(us, 0))
		declare(ctx, eu, v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", Node: standard16()})
		prefer(ctx, eu)
		claims := recordClaims(ctx, eu, "desktops")
		for name, size := range sharing {
			template(ctx, name, size)
		}
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 6 growable"))
		createShared(ctx, creates)
		left := expectShared(ctx, 6)
		Expect(claims.atMost()).To(Equal(6))
		Expect(moves(ctx)).To(BeEmpty())

		By("adding nodes for all of them in the other member")
		Expect(fleet.Member(us).ControlPlane.AddNodes(ctx, kwok.NodeGroup{Count: 60, Region: us, Zone: us + "-a"})).To(Succeed())
		Eventually(ctx, counted(running)).Should(Equal(creates * len(sharing)))
		Expect(moves(ctx)).To(Equal(left))
		Expect(claims.inAll()).To(Equal(6))

		By("raising the limit by two nodes")
		slow.Limits = cores("128")
		Expect(fleet.Member(eu).ControlPlane.Karpenter.NodePools.Apply(ctx, slow)).To(Succeed())
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 6 nodes, 0 provisioning, 2 growable"))
		createAll(ctx, 20, "more", "small")
		Eventually(ctx, counted(both(called("more"), running))).Should(Equal(20))
		Expect(sessions(ctx, both(called("more"), runningIn(eu)))).To(HaveLen(2 * 7))
		Expect(claims.atMost()).To(Equal(8))
		Expect(claims.inAll()).To(Equal(8))
	}, NodeTimeout(specTimeout))
})

// sharing are the cores of the sessions of the templates that share a NodePool, whose nodes have 15.9.
var sharing = map[string]string{"small": "2", "medium": "3", "large": "7"}

// smallest is how many millicores the smallest of them requests.
const smallest = 2000

func cores(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

// createShared creates sessions of all three templates at once.
func createShared(ctx context.Context, count int) {
	GinkgoHelper()
	var all sync.WaitGroup
	for name := range sharing {
		all.Go(func() {
			defer GinkgoRecover()
			createAll(ctx, count, name, name)
		})
	}
	all.Wait()
}

// expectShared checks that so many nodes run sessions, none of which has free capacity for the smallest, and
// that all others are pending for the limit. It returns those whose Pod is left over, each once:
// kube-scheduler may use the nodes otherwise than the agent and Karpenter expect.
func expectShared(ctx context.Context, nodes int) (left map[string]int) {
	GinkgoHelper()
	Eventually(ctx, groupOf(eu, "desktops")).Should(Equal(fmt.Sprintf("Full: %d nodes, 0 provisioning, 0 growable", nodes)))
	Eventually(ctx, func(ctx context.Context) (map[string]int64, error) { return freeOnNodes(ctx, eu) }).Should(
		And(HaveLen(nodes), HaveEach(BeNumerically("<", smallest))))
	Eventually(ctx, counted(func(s *v1alpha1.VDISession) bool {
		return !running(s) && !isLeft(s) && !isPending("node group desktops has reached its limits: raise those of its autoscaler or end sessions")(s)
	})).Should(BeZero())
	left = map[string]int{}
	for _, s := range sessions(ctx, isLeft) {
		left[s.Name]++
	}
	AddReportEntry(fmt.Sprintf("of %d sessions on %d nodes, Pods left over", len(sessions(ctx, placedIn(eu))), nodes), len(left))
	Expect(len(left)).To(BeNumerically("<=", 2*nodes))
	return left
}

// isLeft reports whether the Pod of a session has no node, and shows why.
func isLeft(s *v1alpha1.VDISession) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady)
	return c != nil && c.Reason == v1alpha1.ReasonScaleUpFailed && strings.Contains(c.Message, "Node group desktops adds no node")
}

// freeOnNodes returns the millicores of each node of a member that no running Pod requests.
func freeOnNodes(ctx context.Context, member string) (map[string]int64, error) {
	kube := fleet.Member(member).ControlPlane.Client.CoreV1()
	nodes, err := kube.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := kube.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
	if err != nil {
		return nil, err
	}
	free := map[string]int64{}
	for i := range nodes.Items {
		free[nodes.Items[i].Name] = nodes.Items[i].Status.Allocatable.Cpu().MilliValue()
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Spec.Containers {
			free[pods.Items[i].Spec.NodeName] -= c.Resources.Requests.Cpu().MilliValue()
		}
	}
	return free, nil
}
