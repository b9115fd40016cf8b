package harness_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
)

const gpus = corev1.ResourceName("nvidia.com/gpu")

// agentNotReady is the startup taint of the NodePool late.
var agentNotReady = corev1.Taint{Key: "example.com/agent-not-ready", Effect: corev1.TaintEffectNoSchedule}

// TestKarpenter adds nodes to a control plane that has none. Each NodePool has the Pods of one
// subtest.
func TestKarpenter(t *testing.T) {
	takesLong(t)
	if err := harness.HasKarpenter(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
	t.Cleanup(cancel)
	pool := func(name string) karpenter.NodePool {
		return karpenter.NodePool{Name: name, Labels: map[string]string{"pool": name}, InstanceTypes: []string{"standard-16"}}
	}
	limited, late := pool("limited"), pool("late")
	limited.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32")}
	limited.RegistrationDelay = time.Second
	late.StartupTaints, late.InstanceTypes = []corev1.Taint{agentNotReady}, []string{"gpu-16"}
	brief := pool("brief")
	brief.ConsolidateAfter = time.Second
	cp := startControlPlane(ctx, t, harness.ControlPlaneOptions{
		Karpenter:  &karpenter.Options{Region: "eu-west", NodePools: []karpenter.NodePool{limited, late, brief, pool("scarce"), pool("stuck")}},
		Namespaces: map[string]map[string]string{"desktops": nil},
	})

	t.Run("adds nodes up to the limit of a NodePool", func(t *testing.T) { testLimit(ctx, t, cp) })
	t.Run("adds no node without capacity, and one when there is some", func(t *testing.T) { testNoCapacity(ctx, t, cp) })
	t.Run("adds no second node while devices and startup taints are late", func(t *testing.T) { testLateNode(ctx, t, cp) })
	t.Run("registers a node that is stuck, after a restart too", func(t *testing.T) { testStuckNode(ctx, t, cp) })
	t.Run("removes an empty node, and outlasts its API server", func(t *testing.T) { testEmptyNode(ctx, t, cp) })
}

func TestKarpenterOfAMember(t *testing.T) {
	takesLong(t)
	if err := harness.HasKarpenter(); err != nil {
		t.Skip(err)
	}
	ctx := testContext(t)
	fleet, err := harness.Start(ctx, harness.Options{NoFleetProcesses: true, MemberSpecs: []harness.MemberSpec{
		{Name: "grows", Region: "eu-west", Zone: "eu-west-a", Karpenter: &karpenter.Options{NodePools: []karpenter.NodePool{{Name: "desktops"}}}},
		{Name: "static", Region: "us-east", Zone: "us-east-a"},
	}})
	must(t, err)
	defer func() { must(t, fleet.Stop()) }()
	member := fleet.Member("grows")
	cp := member.ControlPlane
	if fleet.Member("static").ControlPlane.Karpenter != nil {
		t.Error("a member has a Karpenter without asking for it")
	}
	must(t, member.PowerOff())
	if cp.Karpenter.Running() {
		t.Error("Karpenter runs without power")
	}
	must(t, member.PowerOn(ctx))
	createPod(ctx, t, cp, restricted(pod("desktop", "registry.example/desktop:1", nil)))
	eventually(ctx, t, podIs(cp, "desktop", podReady))
	eventually(ctx, t, oneNode(cp, "desktops", func(node *corev1.Node) bool {
		return node.Labels[corev1.LabelTopologyRegion] == "eu-west"
	}))
	counts, err := harness.CountWrites(cp.AuditLog(), harness.CountOptions{Users: []string{"karpenter"}})
	must(t, err)
	if !slices.ContainsFunc(counts, func(c harness.WriteCount) bool { return c.Verb == "create" && c.Resource == "nodeclaims" }) {
		t.Errorf("the user karpenter created no NodeClaim: %v", counts)
	}
}

// restricted makes a Pod fit for a namespace with the Pod Security Standard restricted.
func restricted(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	return pod
}

// testLimit creates a Pod, then three more, each as large as most of a node, with a limit of
// two nodes.
func testLimit(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	createPod(ctx, t, cp, poolPod("limited-0", "limited"))
	eventually(ctx, t, podIs(cp, "limited-0", podReady))
	nodes, err := cp.Karpenter.NodePools.Nodes(ctx, "limited")
	must(t, err)
	if len(nodes) != 1 {
		t.Fatalf("there are %d nodes, want 1", len(nodes))
	}
	node := nodes[0]
	if node.Status.Capacity.Cpu().String() != "16" || node.Status.Allocatable.Cpu().String() != "15900m" {
		t.Errorf("its capacity is %v and %v is allocatable: not those of its instance type", node.Status.Capacity, node.Status.Allocatable)
	}
	if node.Labels[corev1.LabelTopologyRegion] != "eu-west" || !strings.HasPrefix(node.Labels[corev1.LabelTopologyZone], "eu-west-") {
		t.Errorf("it has no region and zone: %v", node.Labels)
	}
	for i := range 3 {
		createPod(ctx, t, cp, poolPod(fmt.Sprintf("limited-%d", i+1), "limited"))
	}
	eventually(ctx, t, eventOf(cp, "Pod", "karpenter", "limits"))
	eventually(ctx, t, runningPods(cp, "limited", 2))
	claims, err := cp.Karpenter.NodePools.NodeClaims(ctx, "limited")
	must(t, err)
	if len(claims) != 2 {
		t.Errorf("there are %d NodeClaims of 16 cores, want 2 for a limit of 32", len(claims))
	}
}

func testNoCapacity(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	must(t, cp.Karpenter.NodePools.SetFaults(ctx, "scarce", karpenter.Faults{InsufficientCapacity: "no capacity in eu-west-a"}))
	createPod(ctx, t, cp, poolPod("scarce-0", "scarce"))
	eventually(ctx, t, eventOf(cp, "NodeClaim", "karpenter", "no capacity in eu-west-a"))
	nodes, err := cp.Karpenter.NodePools.Nodes(ctx, "scarce")
	must(t, err)
	if len(nodes) != 0 {
		t.Errorf("there are %d nodes without capacity", len(nodes))
	}
	must(t, cp.Karpenter.NodePools.SetFaults(ctx, "scarce", karpenter.Faults{}))
	eventually(ctx, t, podIs(cp, "scarce-0", podReady))
}

func testLateNode(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	must(t, cp.Karpenter.NodePools.SetFaults(ctx, "late", karpenter.Faults{Devices: karpenter.Never, StartupTaints: karpenter.Never}))
	late := poolPod("late-0", "late")
	late.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpus: resource.MustParse("1")}
	createPod(ctx, t, cp, late)
	eventually(ctx, t, oneNode(cp, "late", func(node *corev1.Node) bool {
		return hasTaint(node, agentNotReady) && node.Labels["karpenter.sh/registered"] == "true" && gpusOf(node) == 0
	}))
	must(t, cp.Karpenter.NodePools.SetFaults(ctx, "late", karpenter.Faults{Devices: karpenter.Never}))
	eventually(ctx, t, oneNode(cp, "late", func(node *corev1.Node) bool { return !hasTaint(node, agentNotReady) }))
	if err := podIs(cp, "late-0", podReady)(ctx); err == nil {
		t.Error("the Pod runs without its GPU")
	}
	must(t, cp.Karpenter.NodePools.SetFaults(ctx, "late", karpenter.Faults{}))
	eventually(ctx, t, podIs(cp, "late-0", podReady))
	eventually(ctx, t, oneNode(cp, "late", func(node *corev1.Node) bool { return gpusOf(node) == 4 }))
}

func testStuckNode(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	must(t, cp.Karpenter.NodePools.SetFaults(ctx, "stuck", karpenter.Faults{Registration: karpenter.Never}))
	createPod(ctx, t, cp, poolPod("stuck-0", "stuck"))
	eventually(ctx, t, func(ctx context.Context) error {
		claims, err := cp.Karpenter.NodePools.NodeClaims(ctx, "stuck")
		if err == nil && (len(claims) != 1 || apply.ConditionStatus(&claims[0], "Launched") != "True") {
			return fmt.Errorf("NodeClaims: %v", claims)
		}
		return err
	})
	must(t, cp.Karpenter.Kill())
	nodes, err := cp.Karpenter.NodePools.Nodes(ctx, "stuck")
	must(t, err)
	if len(nodes) != 0 {
		t.Errorf("%d nodes are registered", len(nodes))
	}
	must(t, cp.Karpenter.NodePools.SetFaults(ctx, "stuck", karpenter.Faults{}))
	must(t, cp.Karpenter.Start())
	must(t, cp.Karpenter.WaitReady(ctx))
	eventually(ctx, t, podIs(cp, "stuck-0", podReady))
	eventually(ctx, t, oneNode(cp, "stuck", func(*corev1.Node) bool { return true }))
}

func testEmptyNode(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	createPod(ctx, t, cp, poolPod("brief-0", "brief"))
	eventually(ctx, t, podIs(cp, "brief-0", podReady))
	must(t, cp.Client.CoreV1().Pods("desktops").Delete(ctx, "brief-0", metav1.DeleteOptions{}))
	eventually(ctx, t, func(ctx context.Context) error {
		nodes, err := cp.Karpenter.NodePools.Nodes(ctx, "brief")
		if err != nil {
			return err
		}
		claims, err := cp.Karpenter.NodePools.NodeClaims(ctx, "brief")
		if err == nil && len(nodes)+len(claims) > 0 {
			return fmt.Errorf("there are %d nodes and %d NodeClaims", len(nodes), len(claims))
		}
		return err
	})
	was := cp.Karpenter.PID()
	must(t, cp.APIServer.Kill())
	must(t, cp.APIServer.Start())
	must(t, cp.WaitAPI(ctx))
	createPod(ctx, t, cp, poolPod("brief-1", "brief"))
	eventually(ctx, t, podIs(cp, "brief-1", podReady))
	if !cp.Karpenter.Running() || cp.Karpenter.PID() != was {
		t.Error("Karpenter ended with its API server")
	}
}

// poolPod returns a Pod for the nodes of a NodePool, two of which do not fit on one node.
func poolPod(name, nodePool string) *corev1.Pod {
	p := pod(name, "registry.example/desktop:1", nil)
	p.Labels = map[string]string{"pool": nodePool}
	p.Spec.NodeSelector = map[string]string{"pool": nodePool}
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("10")
	return p
}

// eventOf checks that a component has recorded an event whose message contains a text.
func eventOf(cp *harness.ControlPlane, kind, component, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		events, err := cp.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind})
		if err != nil {
			return err
		}
		var others []string
		for _, event := range events.Items {
			if event.Source.Component == component && strings.Contains(event.Message, text) {
				return nil
			}
			others = append(others, event.Source.Component+": "+event.Message)
		}
		return fmt.Errorf("no event of %s contains %q: %q", component, text, others)
	}
}

// runningPods checks how many Pods of a NodePool are ready.
func runningPods(cp *harness.ControlPlane, nodePool string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := cp.Client.CoreV1().Pods("desktops").List(ctx, metav1.ListOptions{LabelSelector: "pool=" + nodePool})
		if err != nil {
			return err
		}
		ready := 0
		for i := range pods.Items {
			if podReady(&pods.Items[i]) {
				ready++
			}
		}
		if ready != want {
			return fmt.Errorf("%d of %d Pods are ready, want %d", ready, len(pods.Items), want)
		}
		return nil
	}
}

// oneNode checks that a NodePool has one NodeClaim, and a node that is as wanted.
func oneNode(cp *harness.ControlPlane, nodePool string, is func(*corev1.Node) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		nodes, err := cp.Karpenter.NodePools.Nodes(ctx, nodePool)
		if err != nil {
			return err
		}
		claims, err := cp.Karpenter.NodePools.NodeClaims(ctx, nodePool)
		if err == nil && (len(nodes) != 1 || len(claims) != 1 || !is(&nodes[0])) {
			return fmt.Errorf("%d NodeClaims, nodes: %+v", len(claims), nodes)
		}
		return err
	}
}

func gpusOf(node *corev1.Node) int64 {
	quantity := node.Status.Allocatable[gpus]
	return quantity.Value()
}

func hasTaint(node *corev1.Node, taint corev1.Taint) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(&taint) {
			return true
		}
	}
	return false
}
