package harness_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/clusterautoscaler"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// TestClusterAutoscaler adds nodes to a control plane that has none: up to the limit of a group, and not while
// its cloud has no capacity. The agent's own parser reads the status.
func TestClusterAutoscaler(t *testing.T) {
	takesLong(t)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	group := func(name string, most int) clusterautoscaler.Group {
		return clusterautoscaler.Group{Name: name, MaxSize: most, Delay: time.Second, Node: kwok.NodeGroup{Labels: map[string]string{"pool": name}}}
	}
	cp := startControlPlane(ctx, t, harness.ControlPlaneOptions{
		ClusterAutoscaler: &clusterautoscaler.Options{Backoff: 5 * time.Second, Groups: []clusterautoscaler.Group{group("limited", 2), group("scarce", 5)}},
		Namespaces:        map[string]map[string]string{"desktops": nil},
	})
	status := func(name string, want nodegroup.AutoscalerGroup) func(context.Context) error {
		return func(ctx context.Context) error {
			c, err := cp.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "cluster-autoscaler-status", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := nodegroup.AutoscalerStatusOf(c); got.Problem != "" || got.Groups[name] != want {
				return fmt.Errorf("group %s: %+v %s, want %+v", name, got.Groups[name], got.Problem, want)
			}
			return nil
		}
	}

	t.Run("adds nodes up to the limit of a group", func(t *testing.T) {
		for i := range 3 {
			createPod(ctx, t, cp, poolPod(fmt.Sprintf("limited-%d", i), "limited"))
		}
		eventually(ctx, t, runningPods(cp, "limited", 2))
		eventually(ctx, t, status("limited", nodegroup.AutoscalerGroup{Target: 2, Most: 2}))
		eventually(ctx, t, eventOf(cp, "Pod", "cluster-autoscaler", "pod triggered scale-up: [{limited 0->2 (max: 2)}]"))
		eventually(ctx, t, eventOf(cp, "Pod", "cluster-autoscaler", "pod didn't trigger scale-up: 1 max node group size reached, 1 node(s) didn't match"))
		expectNodes(ctx, t, cp, "limited", 2)
	})
	t.Run("adds no node without capacity, and one after its backoff", func(t *testing.T) {
		cp.ClusterAutoscaler.SetFault("scarce", clusterautoscaler.Fault{ErrorCode: "QUOTA_EXCEEDED", ErrorMessage: "no quota"})
		createPod(ctx, t, cp, poolPod("scarce-0", "scarce"))
		eventually(ctx, t, status("scarce", nodegroup.AutoscalerGroup{Most: 5, BackedOff: true, Message: "no quota"}))
		eventually(ctx, t, eventOf(cp, "Pod", "cluster-autoscaler", "1 in backoff after failed scale-up"))
		expectNodes(ctx, t, cp, "scarce", 0)
		cp.ClusterAutoscaler.SetFault("scarce", clusterautoscaler.Fault{})
		eventually(ctx, t, podIs(cp, "scarce-0", podReady))
		eventually(ctx, t, status("scarce", nodegroup.AutoscalerGroup{Target: 1, Most: 5}))
		expectNodes(ctx, t, cp, "scarce", 1)
	})
	t.Run("helps no Pod while it does not run, but its cloud does", func(t *testing.T) {
		large := poolPod("scarce-large", "scarce")
		large.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("17")
		createPod(ctx, t, cp, large)
		eventually(ctx, t, eventOf(cp, "Pod", "cluster-autoscaler", "1 Insufficient cpu"))
		createPod(ctx, t, cp, poolPod("scarce-1", "scarce"))
		eventually(ctx, t, status("scarce", nodegroup.AutoscalerGroup{Target: 2, Most: 5}))
		cp.ClusterAutoscaler.Kill()
		eventually(ctx, t, podIs(cp, "scarce-1", podReady))
		createPod(ctx, t, cp, poolPod("scarce-2", "scarce"))
		time.Sleep(3 * time.Second) // three scans would have been made
		expectNodes(ctx, t, cp, "scarce", 2)
		cp.ClusterAutoscaler.Resume()
		eventually(ctx, t, podIs(cp, "scarce-2", podReady))
	})
}

// expectNodes checks how many nodes a group has.
func expectNodes(ctx context.Context, t *testing.T, cp *harness.ControlPlane, group string, want int) {
	t.Helper()
	nodes, err := cp.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + group})
	must(t, err)
	names := make([]string, 0, len(nodes.Items))
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	if len(names) != want {
		t.Errorf("group %s has the nodes %s, want %d", group, strings.Join(names, ", "), want)
	}
}
