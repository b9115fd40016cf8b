package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Strategy defines the order of the members that fit.
//
// +kubebuilder:validation:Enum=Spread;BinPack;LeastLoaded;Weighted
type Strategy string

// The strategies.
const (
	// StrategySpread prefers the member with the fewest sessions.
	StrategySpread Strategy = "Spread"
	// StrategyBinPack fills one member before it uses the next.
	StrategyBinPack Strategy = "BinPack"
	// StrategyLeastLoaded prefers the member with the most free capacity.
	StrategyLeastLoaded Strategy = "LeastLoaded"
	// StrategyWeighted distributes sessions by the weights of the members.
	StrategyWeighted Strategy = "Weighted"
)

// PlacementPolicySpec defines which sessions the policy governs, and how they are placed.
type PlacementPolicySpec struct {
	// match selects the sessions that the policy governs. Empty selects all.
	// +optional
	Match PolicyMatch `json:"match,omitzero"`

	// precedence decides between policies that match the same session: the highest one
	// governs it, and of equals the first by name. From -1000 to 1000. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	Precedence int32 `json:"precedence,omitempty"`

	// requiredRegions are the only regions in which sessions are placed. Defaults to any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	RequiredRegions []string `json:"requiredRegions,omitempty"`

	// preferredRegions are tried first, in this order.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	PreferredRegions []string `json:"preferredRegions,omitempty"`

	// overflow lists tiers of members in the order in which they are used: a member of a
	// later tier is used only if no member of an earlier tier fits. Members in no tier
	// are not used; end the list with an empty tier to use any member. It ranks before
	// preferredRegions, and after the preferences of the session. Defaults to one tier of
	// all members. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Overflow []OverflowTier `json:"overflow,omitempty"`

	// requiredClusters selects the only members in which sessions are placed, by the
	// labels of their MemberCluster. Defaults to any.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="each entry of matchLabels must be a label key with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="the operator in matchExpressions must be In or NotIn with values, or Exists or DoesNotExist without values"
	RequiredClusters *metav1.LabelSelector `json:"requiredClusters,omitempty"`

	// preferredClusters selects members that rank above the others, by the labels of
	// their MemberCluster.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="each entry of matchLabels must be a label key with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="the operator in matchExpressions must be In or NotIn with values, or Exists or DoesNotExist without values"
	PreferredClusters *metav1.LabelSelector `json:"preferredClusters,omitempty"`

	// clusterTolerations are tolerated taints of members, in addition to those that the
	// session tolerates.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ClusterTolerations []corev1.Toleration `json:"clusterTolerations,omitempty"`

	// strategy ranks the members that are equal otherwise. Spread prefers the fewest
	// sessions, BinPack fills one member after the other, LeastLoaded prefers the most
	// free capacity, and Weighted follows the weights of the members. Defaults to
	// LeastLoaded.
	// +optional
	// +kubebuilder:default=LeastLoaded
	Strategy Strategy `json:"strategy,omitempty"`

	// maxProvisioningTime is how long a session may wait for a new node. A node group that usually
	// takes longer is not used, and a session that has waited for so long is moved if another member
	// fits. From 0s to 1h; with 0s, sessions use only nodes that exist. Defaults to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || !self.matches('^([0-9]{1,6}([.][0-9]{1,3})?h)?([0-9]{1,7}([.][0-9]{1,3})?m)?([0-9]{1,9}([.][0-9]{1,3})?s)?([0-9]{1,12}ms)?$') || duration(self) <= duration('1h')",message="must be at most 1h"
	MaxProvisioningTime Duration `json:"maxProvisioningTime,omitempty"`

	// headroomPercent is the percentage of each member's slots that sessions of this
	// policy leave free for failover, from 0 to 90. A higher headroomPercent of the
	// MemberCluster takes precedence. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=90
	HeadroomPercent int32 `json:"headroomPercent,omitempty"`

	// sessionCaps limits the number of sessions that the policy places. Lowering a cap
	// ends no session.
	// +optional
	SessionCaps SessionCaps `json:"sessionCaps,omitzero"`

	// failover is the default failover of the governed sessions.
	// +optional
	Failover SessionFailover `json:"failover,omitzero"`
}

// OverflowTier is a group of members of equal rank. A member must meet all given
// criteria; an empty tier contains every member.
type OverflowTier struct {
	// regions of the members. Empty means any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Regions []string `json:"regions,omitempty"`
	// clusterLabels are labels that the MemberCluster must have. Empty means any.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue() && size(self[k]) <= 63)",message="each entry must be a label key with a value of at most 63 characters"
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
	// capacity that the tier admits. Free: slots on nodes that exist. Any: also slots on nodes that
	// the members' node groups are adding or may still add. Defaults to Any.
	// +optional
	// +kubebuilder:default=Any
	Capacity TierCapacity `json:"capacity,omitempty"`
}

// TierCapacity defines the kinds of capacity that a tier admits.
//
// +kubebuilder:validation:Enum=Any;Free
type TierCapacity string

// The kinds of capacity that tiers admit.
const (
	// TierCapacityAny admits nodes that exist, that are being added, and that may be added.
	TierCapacityAny TierCapacity = "Any"
	// TierCapacityFree admits only nodes that exist.
	TierCapacityFree TierCapacity = "Free"
)

// SessionCaps limits the number of sessions that a policy places. A session counts from
// its placement until its member confirms its stop. Suspended sessions count, since their
// homes and places are kept.
type SessionCaps struct {
	// total is the maximum number of sessions that the policy governs. Defaults to no
	// limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total *int32 `json:"total,omitempty"`
	// perUser is the maximum number of these sessions for each user. Defaults to no
	// limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PerUser *int32 `json:"perUser,omitempty"`
	// perNamespace is the maximum number of these sessions in each namespace of the hub.
	// Defaults to no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PerNamespace *int32 `json:"perNamespace,omitempty"`
	// perCluster is the maximum number of these sessions in each member. Defaults to no
	// limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PerCluster *int32 `json:"perCluster,omitempty"`
}

// PolicyMatch selects the sessions that a policy governs. A session must meet all given
// criteria.
type PolicyMatch struct {
	// namespaces of the sessions. Empty means any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// users of the sessions. Empty means any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Users []string `json:"users,omitempty"`
	// groups of the sessions' users, of which a session must name at least one. Users who
	// create their own sessions must name those of their groups that are listed here.
	// Empty means any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Groups []string `json:"groups,omitempty"`
	// templates of the sessions. Empty means any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Templates []string `json:"templates,omitempty"`
	// selector matches the labels of the sessions. Users choose these labels: to set or
	// remove labels that put a session under the policy, or take it out, requires
	// permission to use the policy (verb use). Since a session without labels is not
	// matched, a mandatory policy must have no selector. Defaults to any labels.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="each entry of matchLabels must be a label key with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="the operator in matchExpressions must be In or NotIn with values, or Exists or DoesNotExist without values"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// PlacementPolicyStatus is the observed state of a policy.
type PlacementPolicyStatus struct {
	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// sessions is the number of sessions that the policy governs, without those being
	// deleted.
	// +optional
	Sessions int32 `json:"sessions"`
	// placed is the number of these sessions that are placed.
	// +optional
	Placed int32 `json:"placed"`
	// waiting is the number of these sessions that are pending.
	// +optional
	Waiting int32 `json:"waiting"`
	// elsewhere is the number of placed sessions that would be placed in another member
	// today. Nothing moves them. Above 500 sessions it is an estimate from a sample.
	// +optional
	Elsewhere int32 `json:"elsewhere"`
	// lastReviewTime is when these numbers last changed.
	// +optional
	LastReviewTime *metav1.Time `json:"lastReviewTime,omitempty"`
}

// PlacementPolicy defines how the sessions that it matches are placed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=vdipp,categories=vdi
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy`
// +kubebuilder:printcolumn:name="Precedence",type=integer,JSONPath=`.spec.precedence`
// +kubebuilder:printcolumn:name="Sessions",type=integer,JSONPath=`.status.sessions`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Elsewhere",type=integer,JSONPath=`.status.elsewhere`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PlacementPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PlacementPolicySpec   `json:"spec"`
	Status PlacementPolicyStatus `json:"status,omitempty"`
}

// PlacementPolicyList is a list of PlacementPolicies.
//
// +kubebuilder:object:root=true
type PlacementPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacementPolicy `json:"items"`
}
