package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxNodeGroups limits MemberClusterSpec.NodeGroups.
const MaxNodeGroups = 32

// Defaults of the times that sessions wait for new nodes.
const (
	// DefaultProvisioningTime is the provisioningTime of a node group that declares none.
	DefaultProvisioningTime = 2 * time.Minute
	// DefaultMaxProvisioningTime is the maxProvisioningTime of a policy that sets none, and of a
	// session without a policy.
	DefaultMaxProvisioningTime = 10 * time.Minute
)

// ProvisioningLimit returns maxProvisioningTime, or its default.
func (s *PlacementPolicySpec) ProvisioningLimit() time.Duration {
	if limit, ok := s.MaxProvisioningTime.Value(); ok {
		return limit
	}
	return DefaultMaxProvisioningTime
}

// NodeGroup is a group of nodes of one shape that the member's autoscaler can add: those of a
// Karpenter NodePool, of a node group of cluster-autoscaler, or of another autoscaler that adds nodes
// for pending Pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.karpenterNodePool) || !has(self.clusterAutoscalerGroup)",message="must have karpenterNodePool or clusterAutoscalerGroup, not both: a node group has one source"
// +kubebuilder:validation:XValidation:rule="has(self.karpenterNodePool) || has(self.clusterAutoscalerGroup) || has(self.maxNodes)",message="must have maxNodes: without karpenterNodePool or clusterAutoscalerGroup, nothing else limits the nodes"
// +kubebuilder:validation:XValidation:rule="has(self.karpenterNodePool) || (has(self.node) && has(self.node.labels) && size(self.node.labels) > 0)",message="must have node.labels: without karpenterNodePool, they select the nodes of the group"
type NodeGroup struct {
	// name of the node group, in conditions, messages and metrics.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="must consist of lower case letters, digits and -, and begin and end with a letter or digit"
	Name string `json:"name"`

	// karpenterNodePool is the name of the Karpenter NodePool that adds the nodes. The agent reads
	// its limits, requirements and taints, and its NodeClaims. Defaults to none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a NodePool: lower case letters, digits, - and ."
	KarpenterNodePool string `json:"karpenterNodePool,omitempty"`

	// clusterAutoscalerGroup is the name of the node group in the ConfigMap
	// cluster-autoscaler-status of the member. The agent reads its limit and its scale-up state
	// there. Defaults to none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-~]+$')",message="must be a name as in the ConfigMap, without spaces"
	ClusterAutoscalerGroup string `json:"clusterAutoscalerGroup,omitempty"`

	// maxNodes is the maximum number of nodes of the group, existing nodes included, from 0 to
	// 10000. A lower limit of the NodePool or of the cluster-autoscaler group takes precedence.
	// Required without either of them. A group without any limit adds no node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxNodes *int32 `json:"maxNodes,omitempty"`

	// node describes an empty node of the group.
	// +optional
	Node NodeShape `json:"node,omitzero"`

	// provisioningTime is how long it usually takes from a pending Pod until a new node runs it.
	// It applies until the agent has measured three. From 10s to 1h. Defaults to 2m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || !self.matches('^([0-9]{1,6}([.][0-9]{1,3})?h)?([0-9]{1,7}([.][0-9]{1,3})?m)?([0-9]{1,9}([.][0-9]{1,3})?s)?([0-9]{1,12}ms)?$') || (duration(self) >= duration('10s') && duration(self) <= duration('1h'))",message="must be from 10s to 1h"
	ProvisioningTime Duration `json:"provisioningTime,omitempty"`
}

// NodeShape describes an empty node of a node group.
type NodeShape struct {
	// allocatable is what an empty node has for Pods, DaemonSets included, by resource: cpu, memory,
	// ephemeral-storage, extended resources, and pods, which is required. At most 16 resources.
	// Defaults to that of the newest node of the group: until it has had one, one session at a time
	// makes it grow.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="'pods' in self",message="must have pods, the number of Pods that a node may run, such as 110"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(cpu|memory|ephemeral-storage|pods|hugepages-[0-9]+[KMGT]i|[-a-z0-9.]+/[-A-Za-z0-9_.]+)$'))",message="each resource must be cpu, memory, ephemeral-storage, pods, hugepages of a size, or an extended resource with its domain, such as nvidia.com/gpu"
	Allocatable map[corev1.ResourceName]NodeQuantity `json:"allocatable,omitempty"`

	// labels of the nodes, which the nodeSelectors of templates must match. At most 32. Without
	// karpenterNodePool they are required, and the nodes that have all of them are those of the
	// group. Defaults to those of the NodePool.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue() && size(self[k]) <= 63)",message="each entry must be a label key with a value of at most 63 characters"
	Labels map[string]string `json:"labels,omitempty"`

	// taints of the nodes, besides those of the NodePool. Templates must tolerate those with effect
	// NoSchedule or NoExecute. Leave out taints that nodes have only while they start. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",message="the effect of a taint must be NoSchedule, PreferNoSchedule or NoExecute"
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// NodeQuantity is an amount of a resource of a node, as Kubernetes writes it without exponents. It is
// a string and not a resource.Quantity, so that one invalid value does not break the decoding of a
// typed List, and so that its length, and with it the cost of its validation, has a limit.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9.]+[A-Za-z]{0,2}$') && isQuantity(self) && quantity(self).asApproximateFloat() <= 9.3e18",message="must be a quantity of at most 8Ei without an exponent, such as 15800m, 60Gi or 110"
type NodeQuantity string

// NodeGroupState defines whether a node group can add nodes.
//
// +kubebuilder:validation:Enum=Available;Full;Exhausted;Unknown
type NodeGroupState string

// The states of a node group.
const (
	// NodeGroupAvailable means that it can add nodes.
	NodeGroupAvailable NodeGroupState = "Available"
	// NodeGroupFull means that it has as many nodes as its limits permit.
	NodeGroupFull NodeGroupState = "Full"
	// NodeGroupExhausted means that its autoscaler adds no node for now.
	NodeGroupExhausted NodeGroupState = "Exhausted"
	// NodeGroupUnknown means that its limits, its shape or its source are not known.
	NodeGroupUnknown NodeGroupState = "Unknown"
)

// NodeGroupStatus is the state of a node group, as the member reports it.
type NodeGroupStatus struct {
	// name of the node group.
	Name string `json:"name"`
	// nodes is the number of nodes that are usable.
	// +optional
	Nodes int32 `json:"nodes"`
	// provisioning is the number of nodes that are being added.
	// +optional
	Provisioning int32 `json:"provisioning"`
	// growable is the number of nodes that the group may still add.
	// +optional
	Growable int32 `json:"growable"`
	// maxNodes is the maximum number of nodes by the limits that count nodes. Absent if only
	// resources limit them, or nothing does.
	// +optional
	MaxNodes int32 `json:"maxNodes,omitempty"`
	// state is whether the group can add nodes: Available; Full, its limits are reached; Exhausted,
	// its autoscaler adds no node for now; or Unknown.
	State NodeGroupState `json:"state"`
	// reason why it can't, in CamelCase. Absent if it can.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message explains why it can't, and the remedy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// retryTime is when sessions use an exhausted group again, one at first. Absent if it is not
	// exhausted.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
	// provisioningTime is how long it usually takes from a pending Pod until a new node runs it:
	// measured, or as the spec states.
	// +optional
	ProvisioningTime Duration `json:"provisioningTime,omitempty"`
}
