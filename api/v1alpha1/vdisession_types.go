package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SessionPhase sums up where a session is in its life.
//
// +kubebuilder:validation:Enum=Pending;Creating;Running;Terminating;Failed
type SessionPhase string

// The phases of a session, computed by PhaseOf alone.
const (
	// PhasePending: not placed yet, or suspended.
	PhasePending SessionPhase = "Pending"
	// PhaseCreating: placed on a member, and its desktop is not ready.
	PhaseCreating SessionPhase = "Creating"
	// PhaseRunning: the desktop is ready and its URL answers.
	PhaseRunning SessionPhase = "Running"
	// PhaseTerminating: deleted, and its member has not confirmed the stop.
	PhaseTerminating SessionPhase = "Terminating"
	// PhaseFailed: it will not run unless somebody changes something.
	PhaseFailed SessionPhase = "Failed"
)

// OperatingMode is whether a session should run.
//
// +kubebuilder:validation:Enum=Running;Suspended
type OperatingMode string

// The operating modes.
const (
	ModeRunning   OperatingMode = "Running"
	ModeSuspended OperatingMode = "Suspended"
)

// FailoverMode is what becomes of a session whose member is gone
// (DESIGN section 7).
//
// +kubebuilder:validation:Enum=Restart;Fence;Hold
type FailoverMode string

// The failover modes.
const (
	// FailoverRestart places the session anew some time after its member was
	// lost; a copy left behind a partition is stopped when it heals.
	FailoverRestart FailoverMode = "Restart"
	// FailoverFence never lets two copies run: the agent stops its own first.
	FailoverFence FailoverMode = "Fence"
	// FailoverHold waits until the stop is confirmed.
	FailoverHold FailoverMode = "Hold"
)

// SessionSpec is what a user asks for.
type SessionSpec struct {
	// User is whose desktop it is.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.@:+/#|]*[A-Za-z0-9])?$')",message="a user begins and ends with a letter or digit and has only letters, digits and -_.@:+/#| between"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="user is immutable: delete the session and create one for the other user"
	User string `json:"user"`

	// Template names the VDITemplate that the desktop is made of.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="must be the name of a VDITemplate: lower-case letters, digits and -"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: delete the session and create one from the other template"
	Template string `json:"template"`

	// Resources of the desktop: cpu, memory, ephemeral-storage or an extended
	// resource such as nvidia.com/gpu. What is absent comes from the template;
	// what holds is in status.resources. Immutable once placed.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=12
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(cpu|memory|ephemeral-storage|[-a-z0-9.]+/[-A-Za-z0-9_.]+)$'))",message="a resource is cpu, memory, ephemeral-storage or an extended resource with its domain, such as nvidia.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : isQuantity(self[k]) && !self[k].startsWith('-'))",message="a resource is a quantity that is not negative, such as 500m, 2 or 4Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('/') || type(self[k]) == int || quantity(self[k]).isInteger())",message="an extended resource is a whole number"
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// Timeout ends the session this long after it started. Absent: the
	// template's. Edit it to extend a session.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out for the template's"
	Timeout Duration `json:"timeout,omitempty"`

	// IdleTimeout ends the session after this long without activity.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out for the template's"
	IdleTimeout Duration `json:"idleTimeout,omitempty"`

	// OperatingMode says whether the desktop should run.
	// +optional
	// +kubebuilder:default=Running
	OperatingMode OperatingMode `json:"operatingMode,omitempty"`

	// Placement narrows or steers where the session may go.
	// +optional
	Placement SessionPlacement `json:"placement,omitzero"`

	// Failover says what happens when the session's member is lost.
	// +optional
	Failover SessionFailover `json:"failover,omitzero"`
}

// SessionPlacement narrows or steers where a session may go.
type SessionPlacement struct {
	// Policy names the PlacementPolicy to use, instead of the one that matches.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a PlacementPolicy"
	Policy string `json:"policy,omitempty"`

	// RequiredRegions are the only regions that the session may go to.
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

	// ClusterSelector must match the labels of the MemberCluster.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="in matchLabels an entry is a label name with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="in matchExpressions the operator is In or NotIn with values, or Exists or DoesNotExist without"
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// ClusterTolerations let the session onto MemberClusters with taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(t, (!has(t.operator) || t.operator in ['', 'Equal', 'Exists']) && (!has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule']))",message="a toleration's operator is Equal or Exists, and its effect NoSchedule or PreferNoSchedule, or none for all of them"
	ClusterTolerations []corev1.Toleration `json:"clusterTolerations,omitempty"`

	// Priority orders waiting sessions, higher first.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`
}

// SessionFailover says what happens when a session's member is lost.
type SessionFailover struct {
	// Mode, by default Restart for a template without a home and Hold for one
	// with a home in the cluster.
	// +optional
	Mode FailoverMode `json:"mode,omitempty"`

	// After is how long a Restart session waits beyond its member's being
	// declared Unreachable.
	// +optional
	After Duration `json:"after,omitempty"`
}

// SessionStatus is what became of it. The hub alone writes it.
type SessionStatus struct {
	// Phase sums up the conditions.
	// +optional
	Phase SessionPhase `json:"phase,omitempty"`

	// Message says in a sentence what the session waits for and what would
	// help; empty when it runs.
	// +optional
	Message string `json:"message,omitempty"`

	// StartTime is when the desktop was first ready, by the hub's clock.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// URL is where the desktop is to be reached.
	// +optional
	URL string `json:"url,omitempty"`

	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions in detail: Accepted, Scheduled, Assigned (the hub's),
	// HomeReady, PodReady, EndpointReady (the agent's), Ready (the sum).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Placement is the member that the session was given to.
	// +optional
	Placement *Placement `json:"placement,omitempty"`

	// Releasing are earlier placements whose stop is not confirmed yet.
	// +optional
	// +listType=map
	// +listMapKey=clusterUID
	Releasing []Release `json:"releasing,omitempty"`

	// Epoch is the highest epoch ever given to this session. It outlives the
	// placement, so that no epoch is given twice.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`

	// ExpirationTime is when the timeout ends the session.
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// TemplateRevision is the hash of the template's spec that the session is
	// made of, whatever the template says by now.
	// +optional
	TemplateRevision string `json:"templateRevision,omitempty"`

	// Resources that hold after the template's defaults.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// Placement is a decision: this session, that member, under this epoch.
type Placement struct {
	// ClusterName is the name of the MemberCluster.
	ClusterName string `json:"clusterName"`
	// ClusterUID is the UID of the MemberCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// Region of the member when the decision fell.
	// +optional
	Region string `json:"region,omitempty"`
	// Epoch numbers the placements of this session, from 1.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
	// PlacementTime is when the decision fell.
	PlacementTime metav1.Time `json:"placementTime"`
}

// Release is a placement that was given up and whose stop is not confirmed.
type Release struct {
	// ClusterName is the name of the MemberCluster.
	ClusterName string `json:"clusterName"`
	// ClusterUID is the UID of the MemberCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// Epoch up to which everything in that member must stop.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
}

// VDISession is one user's desktop, made from one template, for a time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vdis,categories=vdi
// +kubebuilder:selectablefield:JSONPath=`.spec.user`
// +kubebuilder:selectablefield:JSONPath=`.spec.template`
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:selectablefield:JSONPath=`.status.placement.clusterName`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.placement.clusterName`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expirationTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.placement) || (has(self.spec.resources) ? size(self.spec.resources) : 0) == (has(oldSelf.spec.resources) ? size(oldSelf.spec.resources) : 0) && (!has(self.spec.resources) || self.spec.resources.all(k, has(oldSelf.spec.resources) && k in oldSelf.spec.resources && (type(self.spec.resources[k]) == int ? quantity('0').add(self.spec.resources[k]) : quantity(self.spec.resources[k])).compareTo((type(oldSelf.spec.resources[k]) == int ? quantity('0').add(oldSelf.spec.resources[k]) : quantity(oldSelf.spec.resources[k]))) == 0))",message="immutable once the session is placed: delete it and create one with other resources",fieldPath=".spec.resources"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.epoch) || (has(self.status) && has(self.status.epoch) && self.status.epoch >= oldSelf.status.epoch)",message="an epoch never falls",fieldPath=".status.epoch"
type VDISession struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SessionSpec   `json:"spec"`
	Status SessionStatus `json:"status,omitempty"`
}

// VDISessionList is a list of sessions.
//
// +kubebuilder:object:root=true
type VDISessionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VDISession `json:"items"`
}
