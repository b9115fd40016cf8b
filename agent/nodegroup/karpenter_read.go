package nodegroup

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// awaitingReconciliation is the reason of a condition that Karpenter has not determined yet. Its message explains
// nothing, and a NodeClaim that the cloud has no capacity for is deleted with it.
const awaitingReconciliation = "AwaitingReconciliation"

// resourceNodes is the name of a NodePool's limit on the number of its nodes.
const resourceNodes = "nodes"

// nodePool is the part of karpenter.sh/v1 NodePool that is read.
type nodePool struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas *int64 `json:"replicas"`
		Template struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec struct {
				Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
				Taints       []corev1.Taint                   `json:"taints"`
			} `json:"spec"`
		} `json:"template"`
		Limits map[corev1.ResourceName]resource.Quantity `json:"limits"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// NodePoolOf reads a NodePool, the contents of an unstructured object.
func NodePoolOf(content map[string]any) (NodePool, error) {
	var p nodePool
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &p); err != nil {
		return NodePool{}, fmt.Errorf("reading a NodePool: %w", err)
	}
	out := NodePool{
		Name: p.Metadata.Name, Labels: p.Spec.Template.Metadata.Labels, Taints: p.Spec.Template.Spec.Taints,
		Limits: v1alpha1.AmountsOf(p.Spec.Limits),
	}
	for _, r := range p.Spec.Template.Spec.Requirements {
		out.Requirements = append(out.Requirements, Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	if most, ok := out.Limits[resourceNodes]; ok {
		n := int32(min(most, 1<<30))
		out.MaxNodes = &n
		delete(out.Limits, resourceNodes)
	}
	ready := meta.FindStatusCondition(p.Status.Conditions, "Ready")
	switch {
	case p.Metadata.DeletionTimestamp != nil:
		out.Problem = "is being deleted"
	case p.Spec.Replicas != nil:
		out.Problem = "has a fixed number of nodes (spec.replicas), and adds none for Pods"
	case ready == nil:
		out.Problem = "is not Ready yet: is Karpenter running?"
	case ready.Status != metav1.ConditionTrue:
		out.Problem = "is not Ready: " + ready.Message
	}
	return out, nil
}

// nodeClaim is the part of karpenter.sh/v1 NodeClaim that is read.
type nodeClaim struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		NodeName    string              `json:"nodeName"`
		ProviderID  string              `json:"providerID"`
		Capacity    corev1.ResourceList `json:"capacity"`
		Allocatable corev1.ResourceList `json:"allocatable"`
		Conditions  []metav1.Condition  `json:"conditions"`
	} `json:"status"`
}

// NodeClaimOf reads a NodeClaim, the contents of an unstructured object.
func NodeClaimOf(content map[string]any) (NodeClaim, error) {
	var c nodeClaim
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &c); err != nil {
		return NodeClaim{}, fmt.Errorf("reading a NodeClaim: %w", err)
	}
	out := NodeClaim{
		Name: c.Metadata.Name, NodePool: c.Metadata.Labels[LabelNodePool], Node: c.Status.NodeName, ProviderID: c.Status.ProviderID, Created: c.Metadata.CreationTimestamp.Time,
		Launched:    meta.IsStatusConditionTrue(c.Status.Conditions, "Launched"),
		Initialized: meta.IsStatusConditionTrue(c.Status.Conditions, "Initialized"),
		Deleting:    c.Metadata.DeletionTimestamp != nil,
		Allocatable: amountsOf(c.Status.Allocatable), Capacity: amountsOf(c.Status.Capacity),
	}
	if launched := meta.FindStatusCondition(c.Status.Conditions, "Launched"); launched != nil && !out.Launched && launched.Reason != awaitingReconciliation {
		out.Message = launched.Message
	}
	return out, nil
}

// amountsOf returns nil for an empty list.
func amountsOf(list corev1.ResourceList) Amounts {
	if len(list) == 0 {
		return nil
	}
	return v1alpha1.AmountsOf(list)
}

// NodeOf reads a node.
func NodeOf(n *corev1.Node) Node {
	out := Node{
		Name: n.Name, ProviderID: n.Spec.ProviderID, Labels: maps.Clone(n.Labels), Taints: n.Spec.Taints, Created: n.CreationTimestamp.Time,
		Allocatable: amountsOf(n.Status.Allocatable), Capacity: amountsOf(n.Status.Capacity),
	}
	for _, c := range n.Status.Conditions {
		out.Ready = out.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	return out
}

// BoundAt returns when a Pod was bound to its node, zero if it is not.
func BoundAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
