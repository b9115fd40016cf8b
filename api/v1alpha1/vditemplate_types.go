package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TemplateState defines whether new sessions may use a template.
//
// +kubebuilder:validation:Enum=Enabled;Hidden;Disabled
type TemplateState string

// The template states.
const (
	// TemplateEnabled: usable, and offered in catalogs.
	TemplateEnabled TemplateState = "Enabled"
	// TemplateHidden: usable by name, and not offered in catalogs.
	TemplateHidden TemplateState = "Hidden"
	// TemplateDisabled: no new session may use it; existing ones keep running.
	TemplateDisabled TemplateState = "Disabled"
)

// TemplateSpec defines a desktop. Its hash is the template's revision.
//
// +kubebuilder:validation:XValidation:rule="(has(self.env) ? self.env.map(e, size(bytes(e.name)) + (has(e.value) ? size(bytes(e.value)) : 0)).sum() : 0) + (has(self.files) ? self.files.map(f, size(bytes(f.name)) + (has(f.content) ? size(bytes(f.content)) : 0)).sum() : 0) <= 262144",message="env and files must not exceed 256 KiB together, names and contents: put larger data into the image, a home or a Secret"
type TemplateSpec struct {
	// title of the template in catalogs. At most 128 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Title string `json:"title,omitempty"`

	// image of the desktop, by tag or digest.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][-A-Za-z0-9_.:/@]*$')",message="must be an image reference, such as docker.io/kasmweb/chrome:1.16.0"
	Image string `json:"image"`

	// imagePullPolicy of the Pod: Always, IfNotPresent or Never. Defaults to that of
	// Kubernetes: Always for the tag latest, else IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are Secrets for pulling the image. A Secret of that name in the
	// hub's namespace with the label vdi.kasm.io/secret=distribute is sent to the member
	// with the session; any other must exist in the member, in the session's namespace.
	// At most 8.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// command overrides the entrypoint of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Command []string `json:"command,omitempty"`

	// args override the arguments of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Args []string `json:"args,omitempty"`

	// port on which the desktop serves its web page.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// protocol of that port: HTTP or HTTPS. Defaults to HTTP.
	// +optional
	// +kubebuilder:default=HTTP
	Protocol Protocol `json:"protocol,omitempty"`

	// path of the web page within the URL. Defaults to none.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.~/]*$')",message="must begin with / and consist of letters, digits and -_.~/"
	Path string `json:"path,omitempty"`

	// resources are the default and maximum resources of a session.
	// +optional
	Resources TemplateResources `json:"resources,omitzero"`

	// timeout is the default and maximum running time of a session. Defaults to no limit.
	// +optional
	Timeout TimeLimit `json:"timeout,omitzero"`

	// idleTimeout is the default and maximum time of a session without activity. Defaults
	// to no limit.
	// +optional
	IdleTimeout TimeLimit `json:"idleTimeout,omitzero"`

	// home is the volume of the desktop. Defaults to none.
	// +optional
	// +kubebuilder:default={}
	Home TemplateHome `json:"home,omitzero"`

	// env lists environment variables of the desktop. Sessions cannot change them, except
	// those in overridableEnv. To lock a variable without setting it, set it to "". At
	// most 128; env and files must not exceed 256 KiB together.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []EnvVar `json:"env,omitempty"`

	// overridableEnv lists the variables that sessions may set although they are in env
	// or reserved. Reserved are PATH, names that begin with LD_, NVIDIA_, KUBERNETES_ or
	// VDI_ or end in _VISIBLE_DEVICES, and those by which shells and interpreters load
	// code, such as BASH_ENV, PROMPT_COMMAND or NODE_OPTIONS. Case is ignored. Variables
	// from Secrets are never overridable. All other variables need no entry.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=249
	OverridableEnv []string `json:"overridableEnv,omitempty"`

	// files in the directory configMountPath. If a template has files, sessions may only
	// have those in overridableFiles. Changes of a session's files reach a running
	// desktop. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Files []ConfigFile `json:"files,omitempty"`

	// overridableFiles lists the files that sessions may have although the template has
	// files: in place of those of the template, or in addition. Programs that read a
	// whole directory, such as browsers with managed policies, also read files beside a
	// locked one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	OverridableFiles []string `json:"overridableFiles,omitempty"`

	// configMountPath is the absolute path of the directory of files. Defaults to
	// /etc/vdi/config.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.][-A-Za-z0-9_./]*$') && !self.contains('..')",message="must be an absolute path below /, without .."
	ConfigMountPath string `json:"configMountPath,omitempty"`

	// secrets are available in the desktop as files or environment variables. They come
	// from the same places as imagePullSecrets. At most 8.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Secrets []SecretUse `json:"secrets,omitempty"`

	// access defines how the desktop authenticates its user.
	// +optional
	// +kubebuilder:default={}
	Access Access `json:"access,omitzero"`

	// activity defines how the desktop reports when it was last used.
	// +optional
	Activity Activity `json:"activity,omitzero"`

	// startTimeout is how long the desktop may take from the start of its container until
	// it answers on its port. Defaults to 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out for the default"
	StartTimeout Duration `json:"startTimeout,omitempty"`

	// sharedMemory is the size of /dev/shm, which counts toward the memory limit.
	// Defaults to half of the memory limit, or to 256Mi without one.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="must be a quantity greater than zero, such as 512Mi"
	SharedMemory *resource.Quantity `json:"sharedMemory,omitempty"`

	// priorityClassName of the Pod in the member. Defaults to the member's default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a PriorityClass"
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName of the Pod. The template is available only in members that have
	// it. Defaults to none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a RuntimeClass"
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// nodeSelector of the Pod. The template is available only in members with a matching
	// node.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue() && size(self[k]) <= 63)",message="each entry must be a label key with a value of at most 63 characters"
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations of the Pod for taints of nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(t, (!has(t.operator) || t.operator in ['', 'Equal', 'Exists']) && (!has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute']))",message="the operator of a toleration must be Equal or Exists, and its effect NoSchedule, PreferNoSchedule, NoExecute or empty for all"
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// ingressClassName of the Ingress. The template is available only in members that
	// have it. Defaults to the member's default IngressClass.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of an IngressClass"
	IngressClassName string `json:"ingressClassName,omitempty"`

	// tlsSecretName is the name of the Secret with the certificate of the session's host,
	// in the member, in the session's namespace. Defaults to the certificate of the
	// gateway.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a Secret"
	TLSSecretName string `json:"tlsSecretName,omitempty"`

	// networkPolicy defines the network access of the desktop.
	// +optional
	// +kubebuilder:default={}
	NetworkPolicy TemplateNetworkPolicy `json:"networkPolicy,omitzero"`

	// allowedUsers are the users that may use the template. If allowedUsers or
	// allowedGroups is set, a user must be in one of them. Empty, with empty
	// allowedGroups, allows all users.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedUsers []string `json:"allowedUsers,omitempty"`

	// allowedGroups are the groups whose users may use the template; see allowedUsers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedGroups []string `json:"allowedGroups,omitempty"`

	// allowedNamespaces are the only namespaces whose sessions may use the template.
	// Empty allows all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	AllowedNamespaces []string `json:"allowedNamespaces,omitempty"`

	// clusterSelector selects the only members that may run the template, by the labels
	// of their MemberCluster. Defaults to any.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || self.matchLabels.all(k, !format.qualifiedName().validate(k).hasValue() && size(self.matchLabels[k]) <= 63)",message="each entry of matchLabels must be a label key with a value of at most 63 characters"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="the operator in matchExpressions must be In or NotIn with values, or Exists or DoesNotExist without values"
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// state defines whether new sessions may use the template. Enabled: yes. Hidden: yes,
	// but catalogs do not offer it. Disabled: no; existing sessions keep running.
	// Defaults to Enabled.
	// +optional
	// +kubebuilder:default=Enabled
	State TemplateState `json:"state,omitempty"`
}

// TemplateResources are the default and maximum resources of a session.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.default) || self.max.all(k, !(k in self.default) || (type(self.max[k]) == int ? quantity('0').add(self.max[k]) : quantity(self.max[k])).compareTo((type(self.default[k]) == int ? quantity('0').add(self.default[k]) : quantity(self.default[k]))) >= 0)",message="must not exceed max",fieldPath=".default"
type TemplateResources struct {
	// default resources of a session that requests none. A session without default for
	// cpu, memory or ephemeral-storage gets the maximum; without a maximum either, 4Gi of
	// ephemeral-storage, and no limit of cpu and memory.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=10
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(cpu|memory|ephemeral-storage|[-a-z0-9.]+/[-A-Za-z0-9_.]+)$'))",message="each resource must be cpu, memory, ephemeral-storage or an extended resource with its domain, such as nvidia.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : isQuantity(self[k]) && !self[k].startsWith('-') && quantity(self[k]).asApproximateFloat() <= 9.3e18)",message="each quantity must be at least zero and at most 8Ei, such as 500m, 2 or 4Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.contains('/') || (type(self[k]) == int ? self[k] != 0 : !isQuantity(self[k]) || quantity(self[k]).asApproximateFloat() != 0.0))",message="cpu, memory and ephemeral-storage must be greater than zero, which would mean no limit: leave a resource out for its default"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('/') || type(self[k]) == int || quantity(self[k]).isInteger())",message="the quantity of an extended resource must be an integer"
	Default corev1.ResourceList `json:"default,omitempty"`
	// max is the maximum that a session may request. Without an entry, the default is the
	// maximum of an extended resource, and other resources have no maximum.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=10
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^(cpu|memory|ephemeral-storage|[-a-z0-9.]+/[-A-Za-z0-9_.]+)$'))",message="each resource must be cpu, memory, ephemeral-storage or an extended resource with its domain, such as nvidia.com/gpu"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : isQuantity(self[k]) && !self[k].startsWith('-') && quantity(self[k]).asApproximateFloat() <= 9.3e18)",message="each quantity must be at least zero and at most 8Ei, such as 500m, 2 or 4Gi"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.contains('/') || (type(self[k]) == int ? self[k] != 0 : !isQuantity(self[k]) || quantity(self[k]).asApproximateFloat() != 0.0))",message="cpu, memory and ephemeral-storage must be greater than zero, which would mean no limit: leave a resource out for its default"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('/') || type(self[k]) == int || quantity(self[k]).isInteger())",message="the quantity of an extended resource must be an integer"
	Max corev1.ResourceList `json:"max,omitempty"`
}

// TimeLimit is a default and a maximum time.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !has(self.default) || !(self.default + self.max).matches('^([0-9]+([.][0-9]+)?(h|m|s|ms))+$') || duration(self.default) <= duration(self.max)",message="must not exceed max",fieldPath=".default"
type TimeLimit struct {
	// default of a session that sets none. Defaults to max.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out for no limit"
	Default Duration `json:"default,omitempty"`
	// max is the longest time that a session may set. Defaults to no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out for no limit"
	Max Duration `json:"max,omitempty"`
	// unlimited allows a session to set 0s, which means no limit. Defaults to false.
	// +optional
	Unlimited bool `json:"unlimited,omitempty"`
}

// AllowsUser reports whether a user with groups may use the template.
func (t *TemplateSpec) AllowsUser(user string, groups []string) bool {
	return len(t.AllowedUsers) == 0 && len(t.AllowedGroups) == 0 || slices.Contains(t.AllowedUsers, user) ||
		slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(t.AllowedGroups, g) })
}

// AllowsNamespace reports whether sessions of a namespace may use the template.
func (t *TemplateSpec) AllowsNamespace(namespace string) bool {
	return len(t.AllowedNamespaces) == 0 || slices.Contains(t.AllowedNamespaces, namespace)
}

// RevisionSessions is the number of sessions of a revision.
type RevisionSessions struct {
	// revision is the hash of the template's spec.
	Revision string `json:"revision"`
	// sessions is the number of sessions that run the revision, or will when they are
	// resumed.
	Sessions int32 `json:"sessions"`
}

// TemplateStatus is the observed state of a template.
type TemplateStatus struct {
	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// revision is the hash of the current spec.
	// +optional
	Revision string `json:"revision,omitempty"`
	// availableClusters is the number of members that can run the template.
	// +optional
	AvailableClusters int32 `json:"availableClusters"`
	// sessions is the number of placed sessions of any revision.
	// +optional
	Sessions int32 `json:"sessions,omitempty"`
	// revisions of the placed sessions, the most used first.
	// +optional
	// +listType=map
	// +listMapKey=revision
	// +kubebuilder:validation:MaxItems=64
	Revisions []RevisionSessions `json:"revisions,omitempty"`
	// conditions of the template: Available, which states why no member can run it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VDITemplate defines a desktop.
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
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="metadata.name must be a DNS label of at most 63 characters, without dots"
type VDITemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TemplateSpec   `json:"spec"`
	Status TemplateStatus `json:"status,omitempty"`
}

// VDITemplateList is a list of VDITemplates.
//
// +kubebuilder:object:root=true
type VDITemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VDITemplate `json:"items"`
}
