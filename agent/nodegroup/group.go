package nodegroup

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Amounts are amounts by resource, in the units of v1alpha1.AmountsOf.
type Amounts = map[corev1.ResourceName]int64

// Spec is a node group as the MemberCluster declares it.
type Spec struct {
	Name string
	// KarpenterNodePool or ClusterAutoscalerGroup is what adds its nodes. At most one is set: without
	// any, the autoscaler is not watched.
	KarpenterNodePool, ClusterAutoscalerGroup string
	// MaxNodes counts existing nodes too. Nil: only the source limits it.
	MaxNodes *int32
	// Labels and Taints of its nodes. Without a NodePool the labels select them.
	Labels map[string]string
	Taints []corev1.Taint
	// Allocatable of an empty node, before DaemonSets; learned from a node if there is none.
	Allocatable Amounts
	// ProvisioningTime is how long a node usually takes, until it was measured.
	ProvisioningTime time.Duration
}

// Shape is an empty node of a group.
type Shape struct {
	Labels map[string]string
	Taints []corev1.Taint
	// Allocatable before DaemonSets. Nil: not known before the first node.
	Allocatable Amounts
	// Learned is set if Allocatable is that of a node, which another one may exceed.
	Learned bool
	// Requirements of a NodePool on the labels of its nodes, of which each node gets one value.
	Requirements []Requirement
	// chosen reports whether the source may add the label, if nothing else names it.
	chosen func(key string) bool
}

// Requirement is what a NodePool requires of a label.
type Requirement struct {
	Key      string
	Operator corev1.NodeSelectorOperator
	Values   []string
}

// Admits reports whether a node of the shape can have this label.
func (s *Shape) Admits(key, value string) bool {
	if got, ok := s.Labels[key]; ok {
		return got == value
	}
	known := false
	for _, r := range s.Requirements {
		if r.Key != key {
			continue
		}
		known = true
		if !r.admits(value) {
			return false
		}
	}
	return known || s.chosen != nil && s.chosen(key)
}

// Names reports whether the shape has a value, or a requirement, of this label.
func (s *Shape) Names(key string) bool {
	_, has := s.Labels[key]
	return has || slices.ContainsFunc(s.Requirements, func(r Requirement) bool { return r.Key == key })
}

// operators are those of labels by those of nodes.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

// admits reports whether a label may have a value. A malformed requirement admits none.
func (r *Requirement) admits(value string) bool {
	rule, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
	return err == nil && rule.Matches(labels.Set{r.Key: value})
}

// States of a node group.
const (
	StateAvailable = "Available"
	StateFull      = "Full"
	StateExhausted = "Exhausted"
	StateUnknown   = "Unknown"
)

// Reasons of a node group that is not available.
const (
	// ReasonSourceNotFound: its NodePool or cluster-autoscaler group is absent, not usable, or unread.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonDuplicate: another group has the same nodes.
	ReasonDuplicate = "Duplicate"
	// ReasonNoLimit: nothing limits how many nodes it may have.
	ReasonNoLimit = "NoLimit"
	// ReasonShapeUnknown: it has had no node yet, and declares none. One session may try it.
	ReasonShapeUnknown = "ShapeUnknown"
	// ReasonInsufficientCapacity: the cloud provides no node.
	ReasonInsufficientCapacity = "InsufficientCapacity"
	// ReasonNotTriggered: the autoscaler adds no node for a Pod that waits for one.
	ReasonNotTriggered = "NotTriggered"
	// ReasonProvisioningTimeout: a node did not become usable in time.
	ReasonProvisioningTimeout = "ProvisioningTimeout"
)

// Group is the state of a node group at one time.
type Group struct {
	Name string
	// Nodes that are usable.
	Nodes int32
	// Provisioning nodes are requested, and not usable yet.
	Provisioning []Provisioning
	// Growable is how many nodes may still be added.
	Growable int32
	// Shape of a node that may be added; nil if unknown, and then Growable is at most 1: a probe.
	Shape *Shape
	// Flexible is set if its autoscaler chooses the size of each node by the Pods that it is for.
	Flexible bool
	// Most is the most nodes that it may have, 0 if only resources limit it.
	Most int32
	// Possible reports whether its limits permit a node at all, now or once others are gone.
	Possible bool

	State, Reason, Message string
	// RetryTime is when it is tried again if it is exhausted.
	RetryTime time.Time
	// Usual is how long a node usually takes.
	Usual time.Duration
	// Vetoes are the rejections of Pods for which its autoscaler adds no node, although the group could serve
	// them. Growable nodes are not for these.
	Vetoes map[Class]Rejection
}

// Provisioning is a node that a group is adding.
type Provisioning struct {
	// Name of its NodeClaim or Node, empty if only their number is known.
	Name string
	// Node is its name once it has registered.
	Node string
	Shape
}

// Node is the part of a node that a Tracker needs.
type Node struct {
	Name string
	// ProviderID of its instance.
	ProviderID  string
	Labels      map[string]string
	Taints      []corev1.Taint
	Allocatable Amounts
	// Capacity, of which resource limits count.
	Capacity Amounts
	Created  time.Time
	Ready    bool
}
