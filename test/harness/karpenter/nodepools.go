package karpenter

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
)

var (
	nodePoolResource  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	nodeClaimResource = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
)

// NodePools are the NodePools of one cluster, and the faults of their clouds.
type NodePools struct {
	admin *apply.Applier

	mu     sync.Mutex
	faults map[string]Faults
}

// New returns the NodePools of a cluster.
func New(admin *apply.Applier) *NodePools {
	return &NodePools{admin: admin, faults: map[string]Faults{}}
}

// Apply creates or changes a NodePool and its KWOKNodeClass.
func (n *NodePools) Apply(ctx context.Context, pool NodePool) error {
	objects, err := pool.Objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := n.admin.ApplyObject(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes a NodePool; Karpenter drains and removes its nodes.
func (n *NodePools) Delete(ctx context.Context, name string) error {
	err := n.admin.Dynamic.Resource(nodePoolResource).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting NodePool %s: %w", name, err)
	}
	return nil
}

// WaitReady waits until Karpenter has set a NodePool Ready; it adds no nodes before.
func (n *NodePools) WaitReady(ctx context.Context, name string) error {
	return n.admin.WaitUntil(ctx, func(ctx context.Context) error {
		pool, err := n.admin.Dynamic.Resource(nodePoolResource).Get(ctx, name, metav1.GetOptions{})
		if err == nil && apply.ConditionStatus(pool, "Ready") != "True" {
			return fmt.Errorf("NodePool %s is not Ready", name)
		}
		return err
	})
}

// SetFaults replaces the faults of a NodePool; Faults{} removes them. Launches that begin
// milliseconds later may still be without them, as Karpenter watches the ConfigMap.
func (n *NodePools) SetFaults(ctx context.Context, nodePool string, faults Faults) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults[nodePool] = faults
	data, err := faultsData(n.faults)
	if err != nil {
		return err
	}
	config := apply.Object("v1", "ConfigMap", metav1.NamespaceSystem, "karpenter-faults", nil)
	config.Object["data"] = data
	return n.admin.ApplyObject(ctx, config)
}

// Nodes returns the nodes of a NodePool.
func (n *NodePools) Nodes(ctx context.Context, nodePool string) ([]corev1.Node, error) {
	list, err := n.admin.Client.CoreV1().Nodes().List(ctx, ofNodePool(nodePool))
	if err != nil {
		return nil, fmt.Errorf("listing the nodes of NodePool %s: %w", nodePool, err)
	}
	return list.Items, nil
}

// NodeClaims returns the NodeClaims of a NodePool: its nodes and those to come.
func (n *NodePools) NodeClaims(ctx context.Context, nodePool string) ([]unstructured.Unstructured, error) {
	list, err := n.admin.Dynamic.Resource(nodeClaimResource).List(ctx, ofNodePool(nodePool))
	if err != nil {
		return nil, fmt.Errorf("listing the NodeClaims of NodePool %s: %w", nodePool, err)
	}
	return list.Items, nil
}

// DeleteNodeClaim deletes a NodeClaim; Karpenter drains its node, if that exists, and removes it.
func (n *NodePools) DeleteNodeClaim(ctx context.Context, name string) error {
	err := n.admin.Dynamic.Resource(nodeClaimResource).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting NodeClaim %s: %w", name, err)
	}
	return nil
}

func ofNodePool(name string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: nodePoolLabel + "=" + name}
}
