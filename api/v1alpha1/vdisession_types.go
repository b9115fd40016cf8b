package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SessionPhase summarizes the state of a session.
//
// +kubebuilder:validation:Enum=Pending;Creating;Running;Terminating;Failed
type SessionPhase string

// The phases of a session, computed by PhaseOf alone.
const (
	// PhasePending: not placed, or suspended.
	PhasePending SessionPhase = "Pending"
	// PhaseCreating: placed, and the desktop is not ready.
	PhaseCreating SessionPhase = "Creating"
	// PhaseRunning: the desktop is ready at its URL.
	PhaseRunning SessionPhase = "Running"
	// PhaseTerminating: deleted, and its members have not confirmed the stop.
	PhaseTerminating SessionPhase = "Terminating"
	// PhaseFailed: does not run until a user or an operator changes something.
	PhaseFailed SessionPhase = "Failed"
)

// OperatingMode defines whether a session runs.
//
// +kubebuilder:validation:Enum=Running;Suspended
type OperatingMode string

// The operating modes.
const (
	ModeRunning   OperatingMode = "Running"
	ModeSuspended OperatingMode = "Suspended"
)

// SessionSpec is the desired state of a session.
//
// +kubebuilder:validation:XValidation:rule="(has(self.groups) ? self.groups : []) == (has(oldSelf.groups) ? oldSelf.groups : [])",message="groups are immutable: delete the session and create one with the other groups",fieldPath=".groups"
// +kubebuilder:validation:XValidation:rule="(has(self.attempt) ? self.attempt : 0) >= (has(oldSelf.attempt) ? oldSelf.attempt : 0)",message="must not decrease",fieldPath=".attempt"
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env.map(e, size(bytes(e.name)) + (has(e.value) ? size(bytes(e.value)) : 0)).sum() : 0) + (has(self.files) ? self.files.map(f, size(bytes(f.name)) + (has(f.content) ? size(bytes(f.content)) : 0)).sum() : 0) <= 65536",message="env and files must not exceed 64 KiB together, names and contents: put larger data into the image, a home or a Secret"
type SessionSpec struct {
	// user of the desktop. Immutable. Users may create their own sessions; a session of
	// another user requires permission to impersonate that user.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.@:+/#|]*[A-Za-z0-9])?$')",message="must consist of letters, digits and -_.@:+/#|, and begin and end with a letter or digit"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="user is immutable: delete the session and create one for the other user"
	User string `json:"user"`

	// groups of the user, which are compared with a template's allowedGroups and a
	// policy's match.groups. Immutable. Whoever creates the session must be in these
	// groups, or have permission to impersonate them. At most 32.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Groups []string `json:"groups,omitempty"`

	// template is the name of the VDITemplate of the desktop. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="must be the name of a VDITemplate: lower-case letters, digits and -"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable: delete the session and create one from the other template"
	Template string `json:"template"`

	// resources of the desktop: cpu, memory, ephemeral-storage or extended resources such
	// as nvidia.com/gpu. Only extended resources may be 0. Each resource defaults to the
	// template's resources.default, else to its resources.max. status.resources has the
	// effective values. Immutable once the session is placed.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=10
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(cpu|memory|ephemeral-storage|[-a-z0-9.]+/[-A-Za-z0-9_.]+)$'))",message="each resource must be cpu, memory, ephemeral-storage or an extended resource with its domain, such as nvidia.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : isQuantity(self[k]) && !self[k].startsWith('-') && quantity(self[k]).asApproximateFloat() <= 9.3e18)",message="each quantity must be at least zero and at most 8Ei, such as 500m, 2 or 4Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.contains('/') || (type(self[k]) == int ? self[k] != 0 : !isQuantity(self[k]) || quantity(self[k]).asApproximateFloat() != 0.0))",message="cpu, memory and ephemeral-storage must be greater than zero, which would mean no limit: leave a resource out for its default"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('/') || type(self[k]) == int || quantity(self[k]).isInteger())",message="the quantity of an extended resource must be an integer"
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// timeout is the running time after which the session ends; suspensions do not count.
	// Raise it to extend a session. 0s means no limit, if the template's
	// timeout.unlimited allows it. Defaults to the template's timeout.default, else to
	// its timeout.max.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`

	// idleTimeout is the time without activity after which the session ends, if its
	// desktop reports its activity. 0s means no limit, if the template's
	// idleTimeout.unlimited allows it. Defaults to the template's idleTimeout.default,
	// else to its idleTimeout.max.
	// +optional
	IdleTimeout Duration `json:"idleTimeout,omitempty"`

	// operatingMode defines whether the desktop runs. Suspended stops the Pod and
	// releases its slot; home, configuration and URL are kept. Defaults to Running.
	// +optional
	// +kubebuilder:default=Running
	OperatingMode OperatingMode `json:"operatingMode,omitempty"`

	// attempt is the number of the attempt to run the session, from 0 to 1000000. Raise
	// it to retry a session that failed or reached its idle timeout, with the current
	// template; a running desktop is restarted. It cannot decrease.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Attempt int64 `json:"attempt,omitempty"`

	// env lists environment variables, in addition to the template's. A variable that the
	// template sets, or that is reserved, must be in the template's overridableEnv. A
	// change takes effect at the next start of the desktop. At most 64; env and files
	// must not exceed 64 KiB together.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Env []EnvVar `json:"env,omitempty"`

	// files in the template's configMountPath. If the template has files, only those in
	// its overridableFiles are allowed. A change reaches a running desktop. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Files []ConfigFile `json:"files,omitempty"`

	// freshHome requests a new, empty home in place of the user's existing one, so that
	// the session may be placed in any member. The existing home is kept, and listed in
	// the VDIHome. A user with 3 homes of the template left behind gets no fresh one
	// until one of those is deleted or past its retention time.
	// +optional
	FreshHome bool `json:"freshHome,omitempty"`

	// placement restricts and ranks the members for the session.
	// +optional
	Placement SessionPlacement `json:"placement,omitzero"`

	// failover defines what happens when the session's member is lost.
	// +optional
	Failover SessionFailover `json:"failover,omitzero"`
}

// SessionPlacement restricts and ranks the members for a session.
type SessionPlacement struct {
	// policy is the name of the PlacementPolicy that governs the session, in place of the
	// one that matches it. To set, change or remove it requires permission to use the
	// policy (verb use on placementpolicies).
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a PlacementPolicy"
	Policy string `json:"policy,omitempty"`

	// requiredRegions are the only regions in which the session may be placed. Defaults
	// to any.
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

	// clusterSelector selects the only members in which the session may be placed, by the
	// labels of their MemberCluster. Defaults to any.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="each entry of matchLabels must be a label key with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="the operator in matchExpressions must be In or NotIn with values, or Exists or DoesNotExist without values"
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// clusterTolerations are tolerated taints of members. To add one requires permission
	// to tolerate (verb tolerate on vdisessions).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(t, (!has(t.operator) || t.operator in ['', 'Equal', 'Exists']) && (!has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule']))",message="the operator of a toleration must be Equal or Exists, and its effect NoSchedule, PreferNoSchedule or empty for both"
	ClusterTolerations []corev1.Toleration `json:"clusterTolerations,omitempty"`

	// priority of the session in the scheduling queue; higher is placed first. From -1000
	// to 1000. A value above 0 requires permission to prioritize (verb prioritize on
	// vdisessions). Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`
}

// SessionEndpoint is where a desktop is.
type SessionEndpoint struct {
	// url of the desktop in its member. It changes with the member.
	URL string `json:"url"`
}

// SessionStatus is the observed state of a session. Only the hub writes it.
type SessionStatus struct {
	// phase summarizes the conditions.
	// +optional
	Phase SessionPhase `json:"phase,omitempty"`

	// message states why the session does not run, and the remedy. Empty while it runs.
	// +optional
	Message string `json:"message,omitempty"`

	// startTime is when the desktop was first ready, by the hub's clock.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// url of the desktop: of its page in the console, which never changes, or that of endpoint if there
	// is no console.
	// +optional
	URL string `json:"url,omitempty"`

	// endpoint is where the desktop is now. Absent until it was ready, and while the session has no
	// placement.
	// +optional
	Endpoint *SessionEndpoint `json:"endpoint,omitempty"`

	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions of the session: Accepted, Scheduled and Assigned by the hub, HomeReady,
	// PodReady and EndpointReady by the agent, and Ready, which summarizes them.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// placement of the session. Absent while it has none.
	// +optional
	Placement *Placement `json:"placement,omitempty"`

	// releasing lists the earlier placements whose stop is not confirmed yet.
	// +optional
	// +listType=map
	// +listMapKey=clusterUID
	Releasing []Release `json:"releasing,omitempty"`

	// lastFailover describes the last failover of the session.
	// +optional
	LastFailover *FailoverRecord `json:"lastFailover,omitempty"`

	// idleSince is when the desktop was last used, by the hub's clock. Set once it is
	// unused for 5 minutes; absent if it is in use or its activity is unknown.
	// +optional
	IdleSince *metav1.Time `json:"idleSince,omitempty"`

	// epoch is the highest epoch ever issued for this session. It outlives the placement,
	// so that no epoch is issued twice.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`

	// expirationTime is when the session reaches its timeout. Absent while it is
	// suspended, since suspensions do not count.
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`

	// runningSince is when this run of the desktop began, by the hub's clock. Absent
	// while it does not run.
	// +optional
	RunningSince *metav1.Time `json:"runningSince,omitempty"`

	// timeUsed is the running time of earlier runs of the desktop.
	// +optional
	TimeUsed Duration `json:"timeUsed,omitempty"`

	// attempt that runs or has failed.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// home that the session mounts.
	// +optional
	Home *SessionHome `json:"home,omitempty"`

	// accessSecretName is the name of the Secret in the session's namespace that has
	// username and password of the desktop.
	// +optional
	AccessSecretName string `json:"accessSecretName,omitempty"`

	// config of the desktop in its member.
	// +optional
	Config *SessionConfig `json:"config,omitempty"`

	// templateRevision is the revision of the template that the session runs, whatever
	// the template is now.
	// +optional
	TemplateRevision string `json:"templateRevision,omitempty"`

	// resources of the desktop, with the template's defaults applied.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// SessionHome is the location of a session's home, which determines the member of the
// session.
type SessionHome struct {
	// name of the VDIHome, if the home's mode is PerUser.
	// +optional
	Name string `json:"name,omitempty"`
	// clusterName and clusterUID identify the member that holds the home.
	ClusterName string    `json:"clusterName"`
	ClusterUID  types.UID `json:"clusterUID"`
	// claimName is the name of the PersistentVolumeClaim in the member.
	ClaimName string `json:"claimName"`
}

// SessionConfig identifies the ConfigMap with a desktop's files.
type SessionConfig struct {
	// name of the ConfigMap in the member.
	Name string `json:"name"`
	// hash of its content.
	Hash string `json:"hash"`
	// changeTime is when the member reported this content, by the hub's clock.
	ChangeTime metav1.Time `json:"changeTime"`
}

// Release is an earlier placement whose stop is not confirmed yet.
type Release struct {
	// clusterName is the name of the MemberCluster.
	ClusterName string `json:"clusterName"`
	// clusterUID is the UID of the MemberCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// policy is the name of the PlacementPolicy that governed the placement, empty if
	// none did. Its session caps count the placement until the stop is confirmed.
	// +optional
	Policy string `json:"policy,omitempty"`
	// epoch up to which everything of the session in that member must stop.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
	// superseded is true if the session was rescheduled without this stop because the
	// member was lost. The entry remains until the member confirms the stop or is
	// removed.
	// +optional
	Superseded bool `json:"superseded,omitempty"`
	// homeClaimName is the claim of a home that was left behind there.
	// +optional
	HomeClaimName string `json:"homeClaimName,omitempty"`
	// failoverMode of that placement. Unless spec.failover.mode is set, it decides
	// whether the session is rescheduled without the confirmation if the member is lost.
	// Absent if the hub does not have it; then the mode of a new placement decides.
	// +optional
	FailoverMode FailoverMode `json:"failoverMode,omitempty"`
}

// VDISession is a desktop of one user, created from a template, for a limited time.
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
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.placement) || (has(self.spec.resources) ? size(self.spec.resources) : 0) == (has(oldSelf.spec.resources) ? size(oldSelf.spec.resources) : 0) && (!has(self.spec.resources) || self.spec.resources.all(k, has(oldSelf.spec.resources) && k in oldSelf.spec.resources && (type(self.spec.resources[k]) == int || quantity(self.spec.resources[k]).asApproximateFloat() <= 9.3e18) && (type(self.spec.resources[k]) == int ? quantity('0').add(self.spec.resources[k]) : quantity(self.spec.resources[k])).compareTo((type(oldSelf.spec.resources[k]) == int ? quantity('0').add(oldSelf.spec.resources[k]) : quantity(oldSelf.spec.resources[k]))) == 0))",message="immutable once the session is placed: delete it and create one with other resources",fieldPath=".spec.resources"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.epoch) || (has(self.status) && has(self.status.epoch) && self.status.epoch >= oldSelf.status.epoch)",message="must not decrease",fieldPath=".status.epoch"
type VDISession struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SessionSpec   `json:"spec"`
	Status SessionStatus `json:"status,omitempty"`
}

// VDISessionList is a list of VDISessions.
//
// +kubebuilder:object:root=true
type VDISessionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VDISession `json:"items"`
}
