package placement

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// poolLabel is the label of the nodes, and of the other Pods on them.
const poolLabel = "placement.test/pool"

// pool is the nodes that a spec adds to the members.
type pool struct {
	name string
	// nodes of each member, by name.
	nodes map[string][]string
	count int
}

// node is a node of a pool: the cores that another Pod uses, by default one, and
// those that are left free.
type node struct {
	free, used string
	gpus       int64
}

// pieces returns nodes with these numbers of free cores.
func pieces(free ...string) []node {
	var out []node
	for _, f := range free {
		out = append(out, node{free: f})
	}
	return out
}

func newPool(name string) *pool {
	p := &pool{name: name, nodes: map[string][]string{}}
	DeferCleanup(func(ctx SpecContext) {
		for _, m := range fleet.Members {
			p.clear(ctx, m.Name)
			Expect(clients[m.Name].DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{poolLabel: p.name})).To(Succeed())
		}
	})
	return p
}

// add adds nodes to a member, each with another Pod that kube-scheduler has
// bound, and returns their names.
func (p *pool) add(ctx context.Context, member string, nodes ...node) []string {
	GinkgoHelper()
	m := fleet.Member(member)
	var names []string
	for _, n := range nodes {
		if n.used == "" {
			n.used = "1"
		}
		list := kwok.DefaultAllocatable()
		if n.gpus > 0 {
			list = kwok.GPUAllocatable(n.gpus)
		}
		cores := resource.MustParse(n.free)
		cores.Add(resource.MustParse(n.used))
		list[corev1.ResourceCPU] = cores
		prefix := fmt.Sprintf("%s-%d", p.name, p.count)
		p.count++
		Expect(m.ControlPlane.AddNodes(ctx, kwok.NodeGroup{
			Count: 1, Prefix: prefix, Region: m.Spec.Region, Zone: m.Spec.Zone,
			Allocatable: list, Labels: map[string]string{poolLabel: p.name},
		})).To(Succeed())
		name := prefix + "-0"
		p.otherPod(ctx, member, name, "lasting", n.used)
		names = append(names, name)
	}
	p.nodes[member] = append(p.nodes[member], names...)
	Eventually(ctx, func(ctx context.Context) ([]corev1.Pod, error) { return p.unbound(ctx, member) }).Should(BeEmpty())
	return names
}

// otherPod creates a Pod that is not a desktop, for a node of the pool.
func (p *pool) otherPod(ctx context.Context, member, node, what, cpu string) *corev1.Pod {
	GinkgoHelper()
	pod := p.newOtherPod(node, what, cpu)
	// The namespace's service account is created a moment after the namespace.
	Eventually(ctx, func(ctx context.Context) error { return clients[member].Create(ctx, pod) }).Should(Succeed())
	return pod
}

func (p *pool) newOtherPod(node, what, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: others, Name: what + "-" + node,
			Labels: map[string]string{poolLabel: p.name},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Containers: []corev1.Container{{
				Name: "theirs", Image: "theirs.example.com/app:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
		},
	}
}

func (p *pool) unbound(ctx context.Context, member string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := clients[member].List(ctx, list, client.InNamespace(others), client.MatchingLabels{poolLabel: p.name})
	var out []corev1.Pod
	for i := range list.Items {
		if list.Items[i].Spec.NodeName == "" {
			out = append(out, list.Items[i])
		}
	}
	return out, err
}

// clear deletes all other Pods on a member's nodes.
func (p *pool) clear(ctx context.Context, member string) {
	GinkgoHelper()
	Expect(clients[member].DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(others),
		client.MatchingLabels{poolLabel: p.name}, client.GracePeriodSeconds(0))).To(Succeed())
}

// removePod deletes the lasting other Pod of a node.
func (p *pool) removePod(ctx context.Context, member, node string) {
	GinkgoHelper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: others, Name: "lasting-" + node}}
	Expect(clients[member].Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
}

// churn creates and deletes other Pods on every node of the pool until the spec
// ends: one at a time in each member, small enough for the half core that
// sessions do not use.
func (p *pool) churn() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, len(p.nodes))
	for member, nodes := range p.nodes {
		go func() { done <- p.runChurn(ctx, member, nodes) }()
	}
	DeferCleanup(func() {
		stop()
		for range cap(done) {
			Expect(<-done).To(Succeed(), "other Pods that come and go")
		}
	})
}

// churnInterval is short enough that every capacity report of a member differs from
// the last, and long enough that the Pods do not dominate the suite's load.
const churnInterval = 500 * time.Millisecond

// churnCPU lets two such Pods fit beside a desktop on a node of 1500m: on a
// busy machine a member may see the next before the last is deleted.
const churnCPU = "200m"

// runChurn creates and deletes Pods, one after the other, until the context ends.
func (p *pool) runChurn(ctx context.Context, member string, nodes []string) error {
	pace := time.NewTicker(churnInterval)
	defer pace.Stop()
	var last *corev1.Pod
	for i := 0; ; i++ {
		if last != nil {
			if err := clients[member].Delete(ctx, last, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return unlessOver(ctx, err)
			}
		}
		last = p.newOtherPod(nodes[i%len(nodes)], fmt.Sprintf("churn-%d", i), churnCPU)
		if err := clients[member].Create(ctx, last); err != nil {
			return unlessOver(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
	}
}

func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// template creates a template of a one-core desktop that runs on the nodes of the pool,
// unless changed. It is deleted with the spec.
func (p *pool) template(ctx context.Context, name string, changes ...func(*v1alpha1.TemplateSpec)) string {
	GinkgoHelper()
	t := &v1alpha1.VDITemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.TemplateSpec{
			Image: "desktops.example.com/desktop:1", Port: 6901,
			Resources:    v1alpha1.TemplateResources{Default: cores("1")},
			NodeSelector: map[string]string{poolLabel: p.name},
		},
	}
	for _, f := range changes {
		f(&t.Spec)
	}
	Expect(hub.Create(ctx, t)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(hub.Delete(ctx, t))).To(Succeed()) })
	return name
}

func cores(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("256Mi")}
}

// requesting sets the default request of a template in cores.
func requesting(cpu string) func(*v1alpha1.TemplateSpec) {
	return func(t *v1alpha1.TemplateSpec) { t.Resources.Default = cores(cpu) }
}

// slots returns the hub's slots in a member for a template, from a review of
// a session, for Eventually.
func slots(member, template string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		review, err := reviewed(ctx, &v1alpha1.PlacementReviewSpec{
			Session: &v1alpha1.SessionSpec{User: "reviewer@example.com", Template: template},
		})
		if err != nil {
			return 0, err
		}
		for _, c := range review.Status.Clusters {
			if c.ClusterName == member {
				return c.Slots, nil
			}
		}
		return 0, fmt.Errorf("the hub reports nothing of %s", member)
	}
}

// reviewed creates a review, and deletes it once it has a status.
func reviewed(ctx context.Context, spec *v1alpha1.PlacementReviewSpec) (*v1alpha1.PlacementReview, error) {
	review := &v1alpha1.PlacementReview{ObjectMeta: metav1.ObjectMeta{Namespace: teamA, GenerateName: "slots-"}, Spec: *spec}
	if err := hub.Create(ctx, review); err != nil {
		return nil, err
	}
	defer func() { _ = hub.Delete(ctx, review.DeepCopy(), client.Preconditions{UID: ptr.To(review.UID)}) }()
	for {
		if err := hub.Get(ctx, client.ObjectKeyFromObject(review), review); err != nil {
			return nil, err
		}
		if review.Status.ReviewTime != nil {
			return review, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the hub's answer: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
