package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TemplateState is whether new sessions may use a template.
//
// +kubebuilder:validation:Enum=Enabled;Hidden;Disabled
type TemplateState string

// The template states.
const (
	// TemplateEnabled: offered and usable.
	TemplateEnabled TemplateState = "Enabled"
	// TemplateHidden: usable by name, not offered in catalogues.
	TemplateHidden TemplateState = "Hidden"
	// TemplateDisabled: no new session may use it; running ones go on.
	TemplateDisabled TemplateState = "Disabled"
)

// TemplateSpec is what a desktop is made of. Its hash is the revision.
//
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env.map(e, size(bytes(e.name)) + (has(e.value) ? size(bytes(e.value)) : 0)).sum() : 0) + (has(self.files) ? self.files.map(f, size(bytes(f.name)) + (has(f.content) ? size(bytes(f.content)) : 0)).sum() : 0) <= 262144",message="env and files have at most 256 KiB together, names and contents: put what is larger into the image, a home or a Secret"
type TemplateSpec struct {
	// Title for people, in catalogues.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Title string `json:"title,omitempty"`

	// Image by tag or digest.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9_.:/@]*$')",message="must be an image reference, such as docker.io/kasmweb/chrome:1.16.0"
	Image string `json:"image"`

	// ImagePullPolicy as of a Pod.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// ImagePullSecrets are Secrets with which the image is pulled. One of that
	// name in the hub's namespace with the label vdi.kasm.io/secret=distribute
	// travels with the session; otherwise it must live in the member, in the
	// session's namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// Command overrides the image's entry point.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Command []string `json:"command,omitempty"`

	// Args override the image's arguments.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Args []string `json:"args,omitempty"`

	// Port on which the desktop serves its web page.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// Protocol on that port.
	// +optional
	// +kubebuilder:default=HTTP
	Protocol Protocol `json:"protocol,omitempty"`

	// Path of the page within the URL.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.~/]*$')",message="must begin with / and have only letters, digits and -_.~/ after it"
	Path string `json:"path,omitempty"`

	// Resources by default and at the most.
	// +optional
	Resources TemplateResources `json:"resources,omitzero"`

	// Timeout of a session by default and at the most.
	// +optional
	Timeout TimeLimit `json:"timeout,omitzero"`

	// IdleTimeout of a session by default and at the most.
	// +optional
	IdleTimeout TimeLimit `json:"idleTimeout,omitzero"`

	// Home of the desktop.
	// +optional
	// +kubebuilder:default={}
	Home TemplateHome `json:"home,omitzero"`

	// Env is given to the desktop. Sessions can't change it, but for those of
	// overridableEnv. To lock a variable that has no value, set it to "". Env and
	// files have at most 256 KiB together.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []EnvVar `json:"env,omitempty"`

	// OverridableEnv names variables that sessions may set though they are in env,
	// or reserved: PATH, names that begin with LD_, NVIDIA_, KUBERNETES_ or VDI_ or
	// end in _VISIBLE_DEVICES, and those by which shells and interpreters load code,
	// such as BASH_ENV, PROMPT_COMMAND or NODE_OPTIONS. Case is ignored. Variables
	// that come from Secrets are never overridable; all others are free.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=249
	OverridableEnv []string `json:"overridableEnv,omitempty"`

	// Files are given to the desktop, in the directory ConfigMountPath. Where a
	// template has any, sessions have no files but those of overridableFiles.
	// Changes of a session's files reach a running desktop.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Files []ConfigFile `json:"files,omitempty"`

	// OverridableFiles names files that sessions may have though the template has
	// files: in the stead of one of the template's, or beside them. Programs that
	// read a whole directory, such as that of a browser's managed policies, take
	// what is beside a locked file as well.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	OverridableFiles []string `json:"overridableFiles,omitempty"`

	// ConfigMountPath is the directory of the files, by default
	// /etc/vdi/config.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.][-A-Za-z0-9_./]*$') && !self.contains('..')",message="must be an absolute path below /, without .."
	ConfigMountPath string `json:"configMountPath,omitempty"`

	// Secrets are given to the desktop as files or variables. They come from
	// where ImagePullSecrets do.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Secrets []SecretUse `json:"secrets,omitempty"`

	// Access is how a user proves to the desktop who he is.
	// +optional
	// +kubebuilder:default={}
	Access Access `json:"access,omitzero"`

	// Activity is how the desktop reports whether it is used.
	// +optional
	Activity Activity `json:"activity,omitzero"`

	// StartTimeout is how long a desktop may take from the start of its
	// container until it answers on its port; by default 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out for the default"
	StartTimeout Duration `json:"startTimeout,omitempty"`

	// SharedMemory is the size of /dev/shm, which counts towards the memory
	// limit; by default half of it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="must be a quantity above zero, such as 512Mi"
	SharedMemory *resource.Quantity `json:"sharedMemory,omitempty"`

	// PriorityClassName of the Pod in the member.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a PriorityClass"
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// RuntimeClassName that the member must offer.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a RuntimeClass"
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// NodeSelector that a node must match.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue() && size(self[k]) <= 63)",message="an entry is a label name with a value of at most 63 characters"
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations of node taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(t, (!has(t.operator) || t.operator in ['', 'Equal', 'Exists']) && (!has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute']))",message="a toleration's operator is Equal or Exists, and its effect NoSchedule, PreferNoSchedule or NoExecute, or none for all of them"
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// IngressClassName that the member must offer; absent: its default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of an IngressClass"
	IngressClassName string `json:"ingressClassName,omitempty"`

	// TLSSecretName is the Secret with the certificate of the session's host, in
	// the member, in the session's namespace; absent: the gateway's own.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a Secret"
	TLSSecretName string `json:"tlsSecretName,omitempty"`

	// NetworkPolicy is whom the desktop may talk to.
	// +optional
	// +kubebuilder:default={}
	NetworkPolicy TemplateNetworkPolicy `json:"networkPolicy,omitzero"`

	// AllowedUsers and AllowedGroups, when given, are the only users that may
	// use the template: one of either is enough.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedUsers []string `json:"allowedUsers,omitempty"`

	// AllowedGroups: see AllowedUsers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedGroups []string `json:"allowedGroups,omitempty"`

	// AllowedNamespaces, when given, are the only namespaces whose sessions
	// may use the template.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	AllowedNamespaces []string `json:"allowedNamespaces,omitempty"`

	// ClusterSelector narrows the members that may run the template, by the
	// labels of their MemberCluster.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="in matchLabels an entry is a label name with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="in matchExpressions the operator is In or NotIn with values, or Exists or DoesNotExist without"
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// State is whether new sessions may use the template.
	// +optional
	// +kubebuilder:default=Enabled
	State TemplateState `json:"state,omitempty"`
}

// TemplateResources are a desktop's resources.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.default) || self.max.all(k, !(k in self.default) || (type(self.max[k]) == int ? quantity('0').add(self.max[k]) : quantity(self.max[k])).compareTo((type(self.default[k]) == int ? quantity('0').add(self.default[k]) : quantity(self.default[k]))) >= 0)",message="default is more than max",fieldPath=".default"
type TemplateResources struct {
	// Default is what a session gets that asks for nothing. Where it does not name
	// cpu, memory or ephemeral-storage, a session gets the maximum; where that does
	// not either, 4Gi of ephemeral-storage, and cpu and memory without a limit.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=12
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(cpu|memory|ephemeral-storage|[-a-z0-9.]+/[-A-Za-z0-9_.]+)$'))",message="a resource is cpu, memory, ephemeral-storage or an extended resource with its domain, such as nvidia.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : isQuantity(self[k]) && !self[k].startsWith('-'))",message="a resource is a quantity that is not negative, such as 500m, 2 or 4Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.contains('/') || (type(self[k]) == int ? self[k] != 0 : !isQuantity(self[k]) || quantity(self[k]).compareTo(quantity('0')) != 0))",message="cpu, memory and ephemeral-storage are above zero, which would be no limit: leave one out for what the template gives"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('/') || type(self[k]) == int || quantity(self[k]).isInteger())",message="an extended resource is a whole number"
	Default corev1.ResourceList `json:"default,omitempty"`
	// Max is what a session may ask for; absent: the default is the most for
	// extended resources, and no limit holds for the others.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=12
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(cpu|memory|ephemeral-storage|[-a-z0-9.]+/[-A-Za-z0-9_.]+)$'))",message="a resource is cpu, memory, ephemeral-storage or an extended resource with its domain, such as nvidia.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : isQuantity(self[k]) && !self[k].startsWith('-'))",message="a resource is a quantity that is not negative, such as 500m, 2 or 4Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.contains('/') || (type(self[k]) == int ? self[k] != 0 : !isQuantity(self[k]) || quantity(self[k]).compareTo(quantity('0')) != 0))",message="cpu, memory and ephemeral-storage are above zero, which would be no limit: leave one out for what the template gives"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('/') || type(self[k]) == int || quantity(self[k]).isInteger())",message="an extended resource is a whole number"
	Max corev1.ResourceList `json:"max,omitempty"`
}

// TimeLimit is a time by default and at the most.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.default) || !(self.default + self.max).matches('^([0-9]+([.][0-9]+)?(h|m|s|ms))+$') || duration(self.default) <= duration(self.max)",message="default is longer than max",fieldPath=".default"
type TimeLimit struct {
	// Default is what a session gets that asks for none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out for no limit"
	Default Duration `json:"default,omitempty"`
	// Max is the longest that a session may ask for.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out for no limit"
	Max Duration `json:"max,omitempty"`
	// Unlimited lets a session ask for 0s, which is no limit.
	// +optional
	Unlimited bool `json:"unlimited,omitempty"`
}

// RevisionSessions counts the sessions of a revision.
type RevisionSessions struct {
	// Revision is the hash of the template's spec.
	Revision string `json:"revision"`
	// Sessions that run it, or will when they are resumed.
	Sessions int32 `json:"sessions"`
}

// TemplateStatus is what the hub knows of a template.
type TemplateStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Revision is the hash of the spec as it stands.
	// +optional
	Revision string `json:"revision,omitempty"`
	// AvailableClusters counts the members that can run it.
	// +optional
	AvailableClusters int32 `json:"availableClusters"`
	// Sessions counts those that are placed, of any revision.
	// +optional
	Sessions int32 `json:"sessions,omitempty"`
	// Revisions that sessions are placed with, the most used first.
	// +optional
	// +listType=map
	// +listMapKey=revision
	// +kubebuilder:validation:MaxItems=64
	Revisions []RevisionSessions `json:"revisions,omitempty"`
	// Conditions: Available, with the reason where no member can run it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VDITemplate is what a desktop is made of.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=vdit,categories=vdi
// +kubebuilder:selectablefield:JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Title",type=string,JSONPath=`.spec.title`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Home",type=string,JSONPath=`.spec.home.mode`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.availableClusters`
// +kubebuilder:printcolumn:name="Sessions",type=integer,JSONPath=`.status.sessions`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="the name of a template is a DNS label of at most 63 characters, without dots"
type VDITemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TemplateSpec   `json:"spec"`
	Status TemplateStatus `json:"status,omitempty"`
}

// VDITemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type VDITemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VDITemplate `json:"items"`
}
