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
	// PhaseFailed: it does not run until a person changes something.
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

// SessionSpec is what a user asks for.
//
// +kubebuilder:validation:XValidation:rule="(has(self.groups) ? self.groups : []) == (has(oldSelf.groups) ? oldSelf.groups : [])",message="groups are immutable: delete the session and create one with the other groups",fieldPath=".groups"
// +kubebuilder:validation:XValidation:rule="(has(self.attempt) ? self.attempt : 0) >= (has(oldSelf.attempt) ? oldSelf.attempt : 0)",message="an attempt never falls",fieldPath=".attempt"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env.map(e, size(bytes(e.name)) + (has(e.value) ? size(bytes(e.value)) : 0)).sum() : 0) + (has(self.files) ? self.files.map(f, size(bytes(f.name)) + (has(f.content) ? size(bytes(f.content)) : 0)).sum() : 0) <= 65536",message="env and files have at most 64 KiB together, names and contents: put what is larger into the image, a home or a Secret"
type SessionSpec struct {
	// User is whose desktop it is.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.@:+/#|]*[A-Za-z0-9])?$')",message="a user begins and ends with a letter or digit and has only letters, digits and -_.@:+/#| between"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="user is immutable: delete the session and create one for the other user"
	User string `json:"user"`

	// Groups of the user, with which a template's allowedGroups are compared. Who
	// creates the session must be of these groups, or be allowed to impersonate
	// them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Groups []string `json:"groups,omitempty"`

	// Template names the VDITemplate that the desktop is made of.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="must be the name of a VDITemplate: lower-case letters, digits and -"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: delete the session and create one from the other template"
	Template string `json:"template"`

	// Resources of the desktop: cpu, memory, ephemeral-storage or an extended
	// resource such as nvidia.com/gpu. What is absent is the template's default,
	// else its maximum; extended resources alone may be 0. What holds is in
	// status.resources. Immutable once placed.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=12
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(cpu|memory|ephemeral-storage|[-a-z0-9.]+/[-A-Za-z0-9_.]+)$'))",message="a resource is cpu, memory, ephemeral-storage or an extended resource with its domain, such as nvidia.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : isQuantity(self[k]) && !self[k].startsWith('-'))",message="a resource is a quantity that is not negative, such as 500m, 2 or 4Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.contains('/') || (type(self[k]) == int ? self[k] != 0 : !isQuantity(self[k]) || quantity(self[k]).compareTo(quantity('0')) != 0))",message="cpu, memory and ephemeral-storage are above zero, which would be no limit: leave one out for what the template gives"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('/') || type(self[k]) == int || quantity(self[k]).isInteger())",message="an extended resource is a whole number"
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// Timeout ends the session once its desktop has run this long, suspensions
	// not counted. Absent: the template's. 0s: no limit, where the template's
	// timeout.unlimited allows it. Edit it to extend a session.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`

	// IdleTimeout ends the session after this long without activity, as the
	// desktop reports it. Absent: the template's. 0s: no limit, where the
	// template's idleTimeout.unlimited allows it.
	// +optional
	IdleTimeout Duration `json:"idleTimeout,omitempty"`

	// OperatingMode says whether the desktop should run.
	// +optional
	// +kubebuilder:default=Running
	OperatingMode OperatingMode `json:"operatingMode,omitempty"`

	// Attempt numbers the tries. Raise it to try a session again that has
	// Failed or idled out, with the template as it stands by then; a desktop
	// that runs is restarted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Attempt int64 `json:"attempt,omitempty"`

	// Env is given to the desktop besides the template's. A variable that the
	// template sets, or that is reserved, must be in the template's overridableEnv.
	// A change takes effect at the next start. Env and files have at most 64 KiB
	// together.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvVar `json:"env,omitempty"`

	// Files are given to the desktop. Where the template has files, they must be in
	// its overridableFiles. A change reaches a running desktop.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Files []ConfigFile `json:"files,omitempty"`

	// FreshHome asks for a new, empty home in the stead of the one that the
	// user has: the session may then go to another member than the one that
	// holds it. The old one is left where it is and named in the VDIHome. A user who
	// has left 3 homes of the template behind gets no fresh one until those are past
	// their retention time, or deleted.
	// +optional
	FreshHome bool `json:"freshHome,omitempty"`

	// Placement narrows or steers where the session may go.
	// +optional
	Placement SessionPlacement `json:"placement,omitzero"`

	// Failover says what happens when the session's member is lost.
	// +optional
	Failover SessionFailover `json:"failover,omitzero"`
}

// SessionPlacement narrows or steers where a session may go.
type SessionPlacement struct {
	// Policy names the PlacementPolicy to use, instead of the one that matches. To
	// set, change or remove it takes permission to use that policy (verb use).
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

	// ClusterTolerations let the session onto MemberClusters with taints. To add
	// one takes permission to tolerate (verb tolerate on vdisessions).
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

	// LastFailover is where the session last came from when its member was lost.
	// +optional
	LastFailover *FailoverRecord `json:"lastFailover,omitempty"`

	// IdleSince is when the desktop was last used, by the hub's clock, where the
	// desktop reports that and it was not for 5 minutes; absent: it is in use, or that is
	// unknown.
	// +optional
	IdleSince *metav1.Time `json:"idleSince,omitempty"`

	// Epoch is the highest epoch ever given to this session. It outlives the
	// placement, so that no epoch is given twice.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`

	// ExpirationTime is when the timeout ends the session; absent while it is
	// suspended, since its time stands still then.
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// RunningSince is when this run of the desktop began, by the hub's clock;
	// absent while it does not run.
	// +optional
	RunningSince *metav1.Time `json:"runningSince,omitempty"`

	// TimeUsed by earlier runs of the desktop.
	// +optional
	TimeUsed Duration `json:"timeUsed,omitempty"`

	// Attempt of the spec that is being run, or has failed.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// Home that the session mounts.
	// +optional
	Home *SessionHome `json:"home,omitempty"`

	// AccessSecretName is the Secret, in the session's namespace, with the
	// username and password of the desktop.
	// +optional
	AccessSecretName string `json:"accessSecretName,omitempty"`

	// Config of the desktop as its member has it.
	// +optional
	Config *SessionConfig `json:"config,omitempty"`

	// TemplateRevision is the hash of the template's spec that the session is
	// made of, whatever the template says by now.
	// +optional
	TemplateRevision string `json:"templateRevision,omitempty"`

	// Resources that hold after the template's defaults.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// SessionHome is where a session's home is, and so where the session must
// go.
type SessionHome struct {
	// Name of the VDIHome, of a PerUser home.
	// +optional
	Name string `json:"name,omitempty"`
	// ClusterName and ClusterUID of the member that holds it.
	ClusterName string    `json:"clusterName"`
	ClusterUID  types.UID `json:"clusterUID"`
	// ClaimName of its PersistentVolumeClaim in the member.
	ClaimName string `json:"claimName"`
}

// SessionConfig is the ConfigMap with a desktop's env and files.
type SessionConfig struct {
	// Name of the ConfigMap in the member.
	Name string `json:"name"`
	// Hash of its content.
	Hash string `json:"hash"`
	// ChangeTime is when the member had it so, by the hub's clock.
	ChangeTime metav1.Time `json:"changeTime"`
}

// Release is an earlier placement whose stop is not confirmed.
type Release struct {
	// ClusterName is the name of the MemberCluster.
	ClusterName string `json:"clusterName"`
	// ClusterUID is the UID of the MemberCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// Policy by which it was placed there; absent: none. Its caps count it until
	// the stop is confirmed.
	// +optional
	Policy string `json:"policy,omitempty"`
	// Epoch up to which everything in that member must stop.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
	// Superseded: the session was rescheduled without waiting for this stop, for
	// the member was lost. It is remembered until that member has confirmed it, or
	// is gone for good.
	// +optional
	Superseded bool `json:"superseded,omitempty"`
	// HomeClaimName is the claim of a home that was left behind there.
	// +optional
	HomeClaimName string `json:"homeClaimName,omitempty"`
	// FailoverMode of that placement. It decides whether the
	// session is rescheduled without the confirmation if the member is lost, unless
	// spec.failover.mode is set. Absent where the hub does not know it: then the
	// mode that the session would be placed with decides.
	// +optional
	FailoverMode FailoverMode `json:"failoverMode,omitempty"`
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
