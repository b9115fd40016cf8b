package elastic

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

const gpus = corev1.ResourceName("nvidia.com/gpu")

// late is how long a registered node stays unusable. It is more than the 10 s after which a session
// leaves a member whose nodes have no free capacity for its Pod.
const late = 12 * time.Second

// lateNodes is a kind of nodes that are not usable when they register, or not whole.
type lateNodes struct {
	// name of the NodePool, the node group, the template, and the value of the label pool of the nodes.
	name string
	// cores, and request besides, of a session.
	cores   string
	request corev1.ResourceList
	// perNode is how many sessions fit on a node.
	perNode int
	pool    karpenter.NodePool
	shape   v1alpha1.NodeShape
	faults  karpenter.Faults
	labels  Labels
}

var _ = Describe("Nodes that are not whole when they register", Ordered, func() {
	withGPUs := standard16()
	withGPUs.Allocatable[gpus] = "4"
	kinds := []lateNodes{{
		name: "gpu", cores: "1", request: corev1.ResourceList{gpus: resource.MustParse("1")}, perNode: 4,
		pool: karpenter.NodePool{InstanceTypes: []string{"gpu-16"}}, shape: withGPUs,
		faults: karpenter.Faults{Devices: karpenter.Delay(late)},
	}, {
		name: "taint", cores: "3", perNode: 5, shape: standard16(),
		pool: karpenter.NodePool{
			InstanceTypes: []string{"standard-16"},
			StartupTaints: []corev1.Taint{{Key: "example.com/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}},
		},
		faults: karpenter.Faults{StartupTaints: karpenter.Delay(late)}, labels: Labels{long},
	}, {
		// Of 15.9 cores, a Pod of the DaemonSet has 2: without it, 7 sessions would fit.
		name: "daemon", cores: "2", perNode: 6, shape: standard16(),
		pool: karpenter.NodePool{InstanceTypes: []string{"standard-16"}},
	}}

	BeforeAll(func(ctx SpecContext) {
		eupools, usnodes, groups := []karpenter.NodePool{}, []kwok.NodeGroup{}, []v1alpha1.NodeGroup{}
		for _, k := range kinds {
			k.pool.Name, k.pool.Labels = k.name, map[string]string{"pool": k.name}
			eupools = append(eupools, k.pool)
			usnodes = append(usnodes, kwok.NodeGroup{
				Count: 1, Region: us, Zone: us + "-a", Prefix: "node-" + k.name, Labels: k.pool.Labels, Allocatable: kwok.GPUAllocatable(4),
			})
			groups = append(groups, v1alpha1.NodeGroup{Name: k.name, KarpenterNodePool: k.name, MaxNodes: ptr.To[int32](3), Node: k.shape})
		}
		start(ctx, growing(eu, eupools...), harness.MemberSpec{Name: us, Region: us, Zone: us + "-a", Nodes: usnodes})
		createDaemonSet(ctx, eu, "daemon", "2")
		declare(ctx, eu, groups...)
		// A session that does not get its node in eu-west would leave: the other member has free slots.
		prefer(ctx, eu)
		for _, k := range kinds {
			Expect(fleet.Member(eu).ControlPlane.Karpenter.NodePools.SetFaults(ctx, k.name, k.faults)).To(Succeed())
			templateOn(ctx, k.name, k.cores, k.request)
		}
	}, NodeTimeout(specTimeout))

	for _, k := range kinds {
		It(fmt.Sprintf("get no more sessions than they run, and no session leaves them: %s", k.name), k.labels, func(ctx SpecContext) {
			claims := recordClaims(ctx, eu, k.name)
			Eventually(ctx, slotsOf(eu, k.name)).Should(Equal(fmt.Sprintf("0 free, %d growable", 3*k.perNode)))

			By("filling two nodes but for one slot")
			createAll(ctx, 2*k.perNode-1, k.name, k.name)
			Eventually(ctx, counted(k.runningIn(eu))).Should(Equal(2*k.perNode - 1))
			Eventually(ctx, slotsOf(eu, k.name)).Should(Equal(fmt.Sprintf("1 free, %d growable", k.perNode)))
			Expect(claims.inAll()).To(Equal(2))

			By("filling the third, with a session more than fit")
			createAll(ctx, k.perNode+2, k.name+"-more", k.name)
			Eventually(ctx, counted(k.runningIn(eu))).Should(Equal(3 * k.perNode))
			Eventually(ctx, counted(k.runningIn(us))).Should(Equal(1))
			Eventually(ctx, groupOf(eu, k.name)).Should(Equal("Full: 3 nodes, 0 provisioning, 0 growable"))
			Eventually(ctx, slotsOf(eu, k.name)).Should(Equal("0 free, 0 growable"))
			Expect(claims.inAll()).To(Equal(3))
			Expect(moves(ctx)).To(BeEmpty())
		}, NodeTimeout(specTimeout))
	}
})

func (k *lateNodes) runningIn(member string) func(*v1alpha1.VDISession) bool {
	return func(s *v1alpha1.VDISession) bool { return s.Spec.Template == k.name && runningIn(member)(s) }
}

// createDaemonSet creates a DaemonSet for the nodes of a pool whose Pods request so many cores.
func createDaemonSet(ctx context.Context, member, pool, cores string) {
	GinkgoHelper()
	labels := map[string]string{"daemon": pool}
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: pool, Namespace: metav1.NamespaceSystem}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": pool}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "daemon", Image: "registry.example.com/daemon:1",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores)}},
	}}
	_, err := fleet.Member(member).ControlPlane.Client.AppsV1().DaemonSets(d.Namespace).Create(ctx, d, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
