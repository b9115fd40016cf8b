package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AssignmentState is how far a member is with an assignment.
//
// +kubebuilder:validation:Enum=Active;Refused;Stopping;Stopped
type AssignmentState string

// The states of an assignment. In a member's API server only Active and
// Stopping are ever seen: Refused and Stopped are what the hub's picture of
// the member remembers until it has been recorded on the session.
const (
	// AssignmentActive: stored, and the agent keeps its children.
	AssignmentActive AssignmentState = "Active"
	// AssignmentRefused: the agent would not store this epoch, and nothing of
	// it runs.
	AssignmentRefused AssignmentState = "Refused"
	// AssignmentStopping: withdrawn, and the last Pod is not gone yet.
	AssignmentStopping AssignmentState = "Stopping"
	// AssignmentStopped: withdrawn, and the kubelet has removed the last Pod.
	AssignmentStopped AssignmentState = "Stopped"
)

// SessionAssignmentSpec is the desired state of one session in a member.
type SessionAssignmentSpec struct {
	// Session that it is about.
	Session SessionReference `json:"session"`

	// Epoch of the placement. The agent refuses a lower one than it has seen.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`

	// Proof that the hub gave this epoch of the session to this member. The agent
	// gives it back with its reports, and the hub then knows that an epoch which
	// it has forgotten was its own. It is no part of what the desktop is.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Proof string `json:"proof,omitempty"`

	// User of the session.
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`

	// Template names the template, TemplateRevision the hash of its spec.
	// +kubebuilder:validation:MaxLength=63
	Template string `json:"template"`
	// +kubebuilder:validation:MaxLength=63
	TemplateRevision string `json:"templateRevision"`

	// RunState is whether the desktop should run.
	RunState OperatingMode `json:"runState"`

	// FailoverMode of the session.
	// +optional
	FailoverMode FailoverMode `json:"failoverMode,omitempty"`

	// Attempt of the session's spec.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// Lapse is the last number, of those that the status asks with, by which the
	// hub has affirmed that this placement still holds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Lapse int64 `json:"lapse,omitempty"`

	// Timeout of the session; absent: none.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`

	// IdleTimeout of the session; absent: none.
	// +optional
	IdleTimeout Duration `json:"idleTimeout,omitempty"`

	// TimeUsed before this placement.
	// +optional
	TimeUsed Duration `json:"timeUsed,omitempty"`

	// Host under which the desktop is reached.
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`

	// Secrets that travel with the assignment. What is in them is stored in
	// Secrets of the member alone.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Secrets []SecretReference `json:"secrets,omitempty"`

	// Desktop is what to run.
	Desktop Desktop `json:"desktop"`
}

// SecretReference names a Secret that the hub sends, as the member has it.
type SecretReference struct {
	// Name of the Secret in the member.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Version of its content.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
}

// SecretPayload is a Secret on its way to a member.
//
// +kubebuilder:object:generate=true
type SecretPayload struct {
	// Name, as in a SecretReference.
	Name string
	// Version of the content.
	Version string
	// Type of the Secret.
	Type corev1.SecretType
	// Data by key.
	Data map[string][]byte
}

// SessionReference names a VDISession of the hub for good.
type SessionReference struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the session: a session recreated under the same name has another.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
}

// Desktop is a template revision with the session's wishes applied: all that
// the agent needs to render its children.
type Desktop struct {
	Image string `json:"image"`
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// +optional
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// +optional
	// +listType=atomic
	Args []string `json:"args,omitempty"`
	// Port on which the desktop serves its web page.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// +optional
	Protocol Protocol `json:"protocol,omitempty"`
	// +optional
	Path string `json:"path,omitempty"`
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=192
	Env []EnvVar `json:"env,omitempty"`
	// +optional
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// +optional
	IngressClassName string `json:"ingressClassName,omitempty"`
	// +optional
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// Files in the directory ConfigMountPath.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Files []ConfigFile `json:"files,omitempty"`
	// +optional
	ConfigMountPath string `json:"configMountPath,omitempty"`
	// Secrets by the names that they have in the member.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Secrets []SecretUse `json:"secrets,omitempty"`
	// +optional
	Access AssignedAccess `json:"access,omitzero"`
	// +optional
	Activity Activity `json:"activity,omitzero"`
	// +optional
	StartTimeout Duration `json:"startTimeout,omitempty"`
	// +optional
	SharedMemory *resource.Quantity `json:"sharedMemory,omitempty"`
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// +optional
	NetworkPolicy TemplateNetworkPolicy `json:"networkPolicy,omitzero"`
	// +optional
	Home AssignedHome `json:"home,omitzero"`
}

// AssignedAccess is the access secret of an assigned desktop.
type AssignedAccess struct {
	// SecretName in the member; empty: there is none.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// PasswordEnv is a variable that has the password.
	// +optional
	PasswordEnv string `json:"passwordEnv,omitempty"`
}

// AssignedHome is the volume of an assigned desktop.
type AssignedHome struct {
	// +optional
	Mode HomeMode `json:"mode,omitempty"`
	// ClaimName in the member. Set unless the mode is None.
	// +optional
	ClaimName string `json:"claimName,omitempty"`
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// +optional
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// Retention, with the default resolved.
	// +optional
	Retention Retention `json:"retention,omitempty"`
	// +optional
	RetentionTime Duration `json:"retentionTime,omitempty"`
	// +optional
	MountPath string `json:"mountPath,omitempty"`
}

// SessionAssignmentStatus is what the agent reports of it.
type SessionAssignmentStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State is how far the member is with it.
	// +optional
	State AssignmentState `json:"state,omitempty"`
	// Reason and Message where the state needs them.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// StartTime is when the desktop was first ready, by the member's clock.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// RunningSince is when this run of the desktop began, by the member's clock;
	// absent while it does not run.
	// +optional
	RunningSince *metav1.Time `json:"runningSince,omitempty"`
	// TimeUsed by earlier runs, those before this placement included.
	// +optional
	TimeUsed Duration `json:"timeUsed,omitempty"`
	// Failure, if the attempt failed permanently: nothing runs until the hub raises
	// the attempt.
	// +optional
	Failure *Failure `json:"failure,omitempty"`
	// Config that the desktop has; absent: none.
	// +optional
	Config *AssignedConfig `json:"config,omitempty"`
	// MissingSecrets are those of the spec that the member does not have, or not
	// as they were sent. The hub sends them again.
	// +optional
	// +listType=set
	MissingSecrets []string `json:"missingSecrets,omitempty"`
	// Lapse is the number with which the member last asked the hub whether it still
	// stands by this placement. In mode Fence it is that of the last lapse of the
	// member's lease: the desktop is stopped until the spec's lapse is as high. In
	// mode Hold it is raised by an agent that has restarted since, when the desktop
	// is to be started in a new sandbox, as after a power cut: a desktop that runs
	// goes on, and one behind a gate starts once the spec's lapse is as high.
	// +optional
	Lapse int64 `json:"lapse,omitempty"`
	// Guarded: the Pod has a guard, by which the kubelet stops the desktop when the
	// lease is over, with no agent or API server alive.
	// +optional
	Guarded bool `json:"guarded,omitempty"`
	// IdleSince is when the desktop was last used, by the member's clock, once it
	// was not for 5 minutes; absent: it is in use, or that is unknown.
	// +optional
	IdleSince *metav1.Time `json:"idleSince,omitempty"`
	// NodeName that the Pod was bound to.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// Conditions: HomeReady, PodReady, EndpointReady, and Progressing where it is
	// False.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Failure is why an attempt of a session failed permanently.
type Failure struct {
	// Attempt that failed.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`
	// Reason of the condition that did not come true.
	Reason string `json:"reason"`
	// Message that names what to do.
	// +optional
	Message string `json:"message,omitempty"`
}

// AssignedConfig is the ConfigMap of a desktop as the member has it.
type AssignedConfig struct {
	// Name of the ConfigMap.
	Name string `json:"name"`
	// Hash of its content.
	Hash string `json:"hash"`
}

// SessionAssignment is the desired state of one session in a member, stored
// in the member's API server by its agent.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vdia,categories=vdi
// +kubebuilder:printcolumn:name="Session",type=string,JSONPath=`.spec.session.name`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Epoch",type=integer,JSONPath=`.spec.epoch`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.conditions[?(@.type=="PodReady")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="PodReady")].reason`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec.session.uid == oldSelf.spec.session.uid",message="the session of an assignment is immutable",fieldPath=".spec.session.uid"
// +kubebuilder:validation:XValidation:rule="self.spec.epoch >= oldSelf.spec.epoch",message="an epoch never falls",fieldPath=".spec.epoch"
type SessionAssignment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SessionAssignmentSpec   `json:"spec"`
	Status SessionAssignmentStatus `json:"status,omitempty"`

	// Payload of the secrets, on its way from the hub to the agent. It is never
	// part of the object that an API server has.
	Payload []SecretPayload `json:"-"`
}

// SessionAssignmentList is a list of assignments.
//
// +kubebuilder:object:root=true
type SessionAssignmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SessionAssignment `json:"items"`
}
