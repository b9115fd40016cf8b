package harness

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeAnnotation marks the nodes that KWOK plays.
const nodeAnnotation = "kwok.x-k8s.io/node"

// NodeGroup is a number of like nodes to simulate.
type NodeGroup struct {
	Count  int
	Region string
	Zone   string
	// Allocatable defaults to DefaultAllocatable.
	Allocatable corev1.ResourceList
	Labels      map[string]string
	Taints      []corev1.Taint
	// Prefix of the names; default "node-" and the zone.
	Prefix string
}

// DefaultAllocatable is 16 cores, 64 GiB, 1 TiB of disk and 110 Pods.
func DefaultAllocatable() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("16"),
		corev1.ResourceMemory: resource.MustParse("64Gi"),
		// Enough for 110 desktops of templates that name none.
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}

// GPUAllocatable is DefaultAllocatable with so many GPUs.
func GPUAllocatable(gpus int64) corev1.ResourceList {
	list := DefaultAllocatable()
	list["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	return list
}

// AddNodes simulates the nodes. They are Ready within a second or so. It may be
// called again to see that they are there.
func (cp *ControlPlane) AddNodes(ctx context.Context, nodes NodeGroup) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range nodes.Count {
		group.Go(func() error {
			_, err := cp.Client.CoreV1().Nodes().Create(ctx, nodes.node(i), metav1.CreateOptions{})
			return ignoreExists(err)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("adding nodes: %w", err)
	}
	return nil
}

func (nodes NodeGroup) node(index int) *corev1.Node {
	prefix := nodes.Prefix
	if prefix == "" {
		prefix = "node-" + nodes.Zone
	}
	name := fmt.Sprintf("%s-%d", prefix, index)
	labels := map[string]string{
		corev1.LabelHostname:       name,
		corev1.LabelOSStable:       "linux",
		corev1.LabelArchStable:     "amd64",
		corev1.LabelTopologyRegion: nodes.Region,
		corev1.LabelTopologyZone:   nodes.Zone,
		"type":                     "kwok",
	}
	maps.Copy(labels, nodes.Labels)
	allocatable := nodes.Allocatable
	if allocatable == nil {
		allocatable = DefaultAllocatable()
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      labels,
			Annotations: map[string]string{nodeAnnotation: "fake"},
		},
		Spec:   corev1.NodeSpec{Taints: nodes.Taints},
		Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable},
	}
}

// RestartKWOK kills KWOK and starts it again. A KWOK that is merely started again
// waits until the nodes' leases of its last life expire; this deletes them.
func (cp *ControlPlane) RestartKWOK(ctx context.Context) error {
	if err := cp.KWOK.Kill(); err != nil {
		return err
	}
	leases := cp.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("restarting KWOK: deleting node leases: %w", err)
	}
	return cp.KWOK.Start()
}

// WaitNodesReady waits until at least count nodes are Ready and free of the
// taints that new nodes have, and those that LoseNode made silent.
func (cp *ControlPlane) WaitNodesReady(ctx context.Context, count int) error {
	return cp.KWOK.WaitUntil(ctx, func(ctx context.Context) error {
		list, err := cp.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			if nodeIsReady(&list.Items[i]) {
				ready++
			}
		}
		if ready < count {
			return fmt.Errorf("%d of %d nodes are Ready", ready, count)
		}
		return nil
	})
}

func nodeIsReady(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
