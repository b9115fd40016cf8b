package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AssignmentState is the state of an assignment in its member.
//
// +kubebuilder:validation:Enum=Active;Refused;Stopping;Stopped
type AssignmentState string

// The states of an assignment. A member's API server has only Active and Stopping: Refused
// and Stopped are kept in the hub's member cache until they are recorded on the session.
const (
	// AssignmentActive: stored; the agent maintains its children.
	AssignmentActive AssignmentState = "Active"
	// AssignmentRefused: the agent refused this epoch, and nothing of it runs.
	AssignmentRefused AssignmentState = "Refused"
	// AssignmentStopping: withdrawn, and the last Pod is not deleted yet.
	AssignmentStopping AssignmentState = "Stopping"
	// AssignmentStopped: withdrawn, and the kubelet has stopped the last Pod.
	AssignmentStopped AssignmentState = "Stopped"
)

// SessionAssignmentSpec is the desired state of one session in a member.
type SessionAssignmentSpec struct {
	// session that is assigned.
	Session SessionReference `json:"session"`

	// epoch of the placement. The agent refuses an epoch lower than the highest that it
	// received.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`

	// proof that the hub issued this epoch of the session to this member. The agent
	// returns it with its reports, so that a restored hub recognizes an epoch that it
	// lost. It does not affect the desktop.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Proof string `json:"proof,omitempty"`

	// user of the session.
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`

	// template is the name of the VDITemplate, and templateRevision the hash of its spec.
	// +kubebuilder:validation:MaxLength=63
	Template string `json:"template"`
	// +kubebuilder:validation:MaxLength=63
	TemplateRevision string `json:"templateRevision"`

	// runState defines whether the desktop runs.
	RunState OperatingMode `json:"runState"`

	// failoverMode of the session.
	// +optional
	FailoverMode FailoverMode `json:"failoverMode,omitempty"`

	// attempt is the session's spec.attempt.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// lapse is the highest status.lapse for which the hub has affirmed that this
	// placement is in effect.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Lapse int64 `json:"lapse,omitempty"`

	// timeout of the session. Absent means no limit.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`

	// idleTimeout of the session. Absent means no limit.
	// +optional
	IdleTimeout Duration `json:"idleTimeout,omitempty"`

	// timeUsed is the running time before this placement.
	// +optional
	TimeUsed Duration `json:"timeUsed,omitempty"`

	// host of the desktop's URL.
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`

	// secrets that the hub sends with the assignment. Their data is stored only in
	// Secrets of the member.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Secrets []SecretReference `json:"secrets,omitempty"`

	// desktop to run.
	Desktop Desktop `json:"desktop"`
}

// SecretReference identifies a Secret that the hub sends.
type SecretReference struct {
	// name of the Secret in the member.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// version of its content.
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
}

// SecretPayload is the content of a Secret that the hub sends to a member.
//
// +kubebuilder:object:generate=true
type SecretPayload struct {
	// Name of the Secret, as in SecretReference.
	Name string
	// Version of the content.
	Version string
	// Type of the Secret.
	Type corev1.SecretType
	// Data by key.
	Data map[string][]byte
}

// SessionReference identifies a VDISession on the hub permanently.
type SessionReference struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the session: a session that is recreated under the same name has another.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
}

// Desktop is a template revision with the settings of the session applied: everything
// that the agent needs to render the children. Fields without a description are those of
// the VDITemplate.
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
	// port on which the desktop serves its web page.
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
	// files in the directory configMountPath.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Files []ConfigFile `json:"files,omitempty"`
	// +optional
	ConfigMountPath string `json:"configMountPath,omitempty"`
	// secrets of the desktop, by their names in the member.
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
	// secretName is the name of the Secret in the member. Empty if there is none.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// passwordEnv is an environment variable that receives the password.
	// +optional
	PasswordEnv string `json:"passwordEnv,omitempty"`
}

// AssignedHome is the volume of an assigned desktop.
type AssignedHome struct {
	// +optional
	Mode HomeMode `json:"mode,omitempty"`
	// claimName is the name of the PersistentVolumeClaim in the member. Set unless the
	// mode is None.
	// +optional
	ClaimName string `json:"claimName,omitempty"`
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// +optional
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// retention, with the default applied.
	// +optional
	Retention Retention `json:"retention,omitempty"`
	// +optional
	RetentionTime Duration `json:"retentionTime,omitempty"`
	// +optional
	MountPath string `json:"mountPath,omitempty"`
}

// SessionAssignmentStatus is the observed state of an assignment, as the agent reports
// it.
type SessionAssignmentStatus struct {
	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// state of the assignment in the member.
	// +optional
	State AssignmentState `json:"state,omitempty"`
	// reason and message of the state, where it needs them.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// startTime is when the desktop was first ready, by the member's clock.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// runningSince is when this run of the desktop began, by the member's clock. Absent
	// while it does not run.
	// +optional
	RunningSince *metav1.Time `json:"runningSince,omitempty"`
	// timeUsed is the running time of earlier runs, including those before this
	// placement.
	// +optional
	TimeUsed Duration `json:"timeUsed,omitempty"`
	// failure is set if the attempt failed permanently: nothing runs until the hub raises
	// the attempt.
	// +optional
	Failure *Failure `json:"failure,omitempty"`
	// config of the desktop. Absent if there is none.
	// +optional
	Config *AssignedConfig `json:"config,omitempty"`
	// missingSecrets are the Secrets of the spec that the member lacks, or has with other
	// content. The hub sends them again.
	// +optional
	// +listType=set
	MissingSecrets []string `json:"missingSecrets,omitempty"`
	// lapse is the number of the member's last request to the hub to affirm this
	// placement. In mode Fence it is raised by each lease lapse: the desktop is stopped
	// until spec.lapse is as high. In mode Hold it is raised by an agent that restarted
	// since, if the desktop is to start in a new sandbox, for example after a power
	// outage: a running desktop keeps running, and one behind a gate starts once
	// spec.lapse is as high.
	// +optional
	Lapse int64 `json:"lapse,omitempty"`
	// guarded is true if the Pod has a guard, by which the kubelet stops the desktop
	// after the lease even if agent and API server are down.
	// +optional
	Guarded bool `json:"guarded,omitempty"`
	// idleSince is when the desktop was last used, by the member's clock. Set once it is
	// unused for 5 minutes; absent if it is in use or its activity is unknown.
	// +optional
	IdleSince *metav1.Time `json:"idleSince,omitempty"`
	// nodeName is the node of the Pod.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// conditions of the assignment: HomeReady, PodReady and EndpointReady, and
	// Progressing while it is False.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Failure states why an attempt of a session failed permanently.
type Failure struct {
	// attempt that failed.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`
	// reason of the condition that did not become True.
	Reason string `json:"reason"`
	// message states cause and remedy.
	// +optional
	Message string `json:"message,omitempty"`
}

// AssignedConfig identifies the ConfigMap of a desktop in the member.
type AssignedConfig struct {
	// name of the ConfigMap.
	Name string `json:"name"`
	// hash of its content.
	Hash string `json:"hash"`
}

// SessionAssignment is the desired state of one session in a member. The member's agent
// stores it in the member's API server.
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
// +kubebuilder:validation:XValidation:rule="self.spec.epoch >= oldSelf.spec.epoch",message="must not decrease",fieldPath=".spec.epoch"
type SessionAssignment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SessionAssignmentSpec   `json:"spec"`
	Status SessionAssignmentStatus `json:"status,omitempty"`

	// Payload of the Secrets, from the hub to the agent. No API server stores it.
	Payload []SecretPayload `json:"-"`
	// MayAddNode is set if the hub placed it where a node must be added first, or is being
	// added: the agent does not refuse it for lack of free capacity then. No API server stores it.
	MayAddNode bool `json:"-"`
}

// SessionAssignmentList is a list of SessionAssignments.
//
// +kubebuilder:object:root=true
type SessionAssignmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SessionAssignment `json:"items"`
}
