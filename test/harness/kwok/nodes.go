package kwok

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Annotation marks the nodes that KWOK simulates.
const Annotation = "kwok.x-k8s.io/node"

// NodeGroup is a number of equal nodes to simulate.
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

// Nodes are the simulated nodes of one cluster.
type Nodes struct {
	client kubernetes.Interface
	wait   func(ctx context.Context, check func(context.Context) error) error
}

// New returns the Nodes of a cluster. wait polls check until it returns nil, and fails
// once KWOK has ended.
func New(client kubernetes.Interface, wait func(ctx context.Context, check func(context.Context) error) error) *Nodes {
	return &Nodes{client: client, wait: wait}
}

// DefaultAllocatable returns 16 cores, 64 GiB, 1 TiB of disk and 110 Pods.
func DefaultAllocatable() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("16"),
		corev1.ResourceMemory: resource.MustParse("64Gi"),
		// Enough for 110 desktops of templates that set none.
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}

// GPUAllocatable returns DefaultAllocatable with GPUs.
func GPUAllocatable(gpus int64) corev1.ResourceList {
	list := DefaultAllocatable()
	list["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	return list
}

// AddNodes creates the nodes that do not exist. KWOK makes them Ready within about a second.
func (n *Nodes) AddNodes(ctx context.Context, of NodeGroup) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range of.Count {
		group.Go(func() error {
			_, err := n.client.CoreV1().Nodes().Create(ctx, of.node(i), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("adding nodes: %w", err)
	}
	return nil
}

func (g NodeGroup) node(index int) *corev1.Node {
	prefix := g.Prefix
	if prefix == "" {
		prefix = "node-" + g.Zone
	}
	return g.Named(fmt.Sprintf("%s-%d", prefix, index))
}

// Named returns a node of the group, which KWOK makes Ready.
func (g NodeGroup) Named(name string) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:       name,
		corev1.LabelOSStable:       "linux",
		corev1.LabelArchStable:     "amd64",
		corev1.LabelTopologyRegion: g.Region,
		corev1.LabelTopologyZone:   g.Zone,
		"type":                     "kwok",
	}
	maps.Copy(labels, g.Labels)
	allocatable := g.Allocatable
	if allocatable == nil {
		allocatable = DefaultAllocatable()
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      labels,
			Annotations: map[string]string{Annotation: "fake"},
		},
		Spec:   corev1.NodeSpec{Taints: g.Taints},
		Status: corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable},
	}
}

// WaitNodesReady waits until at least count nodes are Ready and free of the
// taints that new nodes have, and those of LoseNode.
func (n *Nodes) WaitNodesReady(ctx context.Context, count int) error {
	return n.wait(ctx, func(ctx context.Context) error {
		list, err := n.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
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
