package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Strategy is how candidates that fit are ordered.
//
// +kubebuilder:validation:Enum=Spread;BinPack;LeastLoaded;Weighted
type Strategy string

// The strategies.
const (
	// StrategySpread evens out the number of sessions per member.
	StrategySpread Strategy = "Spread"
	// StrategyBinPack fills a member before it takes the next.
	StrategyBinPack Strategy = "BinPack"
	// StrategyLeastLoaded takes the member with the most free capacity.
	StrategyLeastLoaded Strategy = "LeastLoaded"
	// StrategyWeighted shares sessions out by the members' weights.
	StrategyWeighted Strategy = "Weighted"
)

// PlacementPolicySpec says which sessions it governs, and how they are placed.
type PlacementPolicySpec struct {
	// Match says which sessions the policy governs; empty: all.
	// +optional
	Match PolicyMatch `json:"match,omitzero"`

	// Precedence orders the policies that match a session: the highest
	// governs; among equals the name that sorts first.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	Precedence int32 `json:"precedence,omitempty"`

	// RequiredRegions are the only ones to use.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	RequiredRegions []string `json:"requiredRegions,omitempty"`

	// PreferredRegions are tried first, in this order.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	PreferredRegions []string `json:"preferredRegions,omitempty"`

	// Overflow are the tiers of members to use, in this order: a member of a
	// later tier is used only where no member of an earlier one fits. When it is
	// given, members of no tier are not used: end it with an empty tier for any
	// member. It comes before preferredRegions, and after what the session
	// itself prefers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Overflow []OverflowTier `json:"overflow,omitempty"`

	// RequiredClusters must match the labels of the MemberCluster.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="in matchLabels an entry is a label name with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="in matchExpressions the operator is In or NotIn with values, or Exists or DoesNotExist without"
	RequiredClusters *metav1.LabelSelector `json:"requiredClusters,omitempty"`

	// PreferredClusters rank above the others.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="in matchLabels an entry is a label name with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="in matchExpressions the operator is In or NotIn with values, or Exists or DoesNotExist without"
	PreferredClusters *metav1.LabelSelector `json:"preferredClusters,omitempty"`

	// ClusterTolerations are tolerated taints of members, besides those that the
	// session tolerates.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ClusterTolerations []corev1.Toleration `json:"clusterTolerations,omitempty"`

	// Strategy orders the candidates that fit.
	// +optional
	// +kubebuilder:default=LeastLoaded
	Strategy Strategy `json:"strategy,omitempty"`

	// HeadroomPercent of the slots of each member is left free by the sessions
	// that the policy governs, for failover. Where the MemberCluster keeps more
	// free, that holds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=90
	HeadroomPercent int32 `json:"headroomPercent,omitempty"`

	// SessionCaps bound how many sessions the policy places. Lowering one ends
	// no session.
	// +optional
	SessionCaps SessionCaps `json:"sessionCaps,omitzero"`

	// Failover sets the failover of sessions that do not say it.
	// +optional
	Failover SessionFailover `json:"failover,omitzero"`
}

// OverflowTier is a group of members that are as good as each other. All that
// is given must hold; an empty tier is every member.
type OverflowTier struct {
	// Regions of the tier; empty: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Regions []string `json:"regions,omitempty"`
	// ClusterLabels that the MemberCluster must have; empty: any.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue() && size(self[k]) <= 63)",message="an entry is a label name with a value of at most 63 characters"
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
}

// SessionCaps are the most sessions that a policy places. A session counts from
// its placement until its member has confirmed that nothing of it runs; a
// suspended one counts, for its home and its place are kept.
type SessionCaps struct {
	// Total of all that it governs; absent: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total *int32 `json:"total,omitempty"`
	// PerUser of them; absent: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PerUser *int32 `json:"perUser,omitempty"`
	// PerNamespace of the hub; absent: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PerNamespace *int32 `json:"perNamespace,omitempty"`
	// PerCluster, in each member; absent: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PerCluster *int32 `json:"perCluster,omitempty"`
}

// PolicyMatch says which sessions a policy governs. All that is given must
// hold.
type PolicyMatch struct {
	// Namespaces of the sessions.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// Users of the sessions.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Users []string `json:"users,omitempty"`
	// Groups of the sessions' users: one of them is enough. Users who create their
	// own sessions must name these of their groups.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Groups []string `json:"groups,omitempty"`
	// Templates of the sessions.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Templates []string `json:"templates,omitempty"`
	// Selector matches the labels of the session, which users choose: labels that
	// put a session under the policy, or take it out, need permission to use the
	// policy (verb use). A new session without labels is not under it, so that a
	// policy that must hold has no selector.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="in matchLabels an entry is a label name with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="in matchExpressions the operator is In or NotIn with values, or Exists or DoesNotExist without"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// PlacementPolicyStatus is what the hub says of a policy.
type PlacementPolicyStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Sessions that the policy governs.
	// +optional
	Sessions int32 `json:"sessions"`
	// Placed are those of them that have a member.
	// +optional
	Placed int32 `json:"placed"`
	// Waiting are those that have none and want one.
	// +optional
	Waiting int32 `json:"waiting"`
	// Elsewhere are those placed that would be placed elsewhere today, were they
	// rescheduled. Nothing moves them.
	// +optional
	Elsewhere int32 `json:"elsewhere"`
	// LastReviewTime is when that was reckoned.
	// +optional
	LastReviewTime *metav1.Time `json:"lastReviewTime,omitempty"`
}

// PlacementPolicy says how the sessions that it matches are placed.
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

// PlacementPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type PlacementPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacementPolicy `json:"items"`
}
