package v1alpha1

import (
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
	// StrategyLeastLoaded takes the member with the most room left.
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

	// Strategy orders the candidates that fit.
	// +optional
	// +kubebuilder:default=LeastLoaded
	Strategy Strategy `json:"strategy,omitempty"`

	// Failover sets the failover of sessions that do not say it.
	// +optional
	Failover SessionFailover `json:"failover,omitzero"`
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
	// Templates of the sessions.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Templates []string `json:"templates,omitempty"`
	// Selector matches the labels of the session.
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
	Sessions int32 `json:"sessions,omitempty"`
}

// PlacementPolicy says how the sessions that it matches are placed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=vdipp,categories=vdi
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy`
// +kubebuilder:printcolumn:name="Precedence",type=integer,JSONPath=`.spec.precedence`
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
