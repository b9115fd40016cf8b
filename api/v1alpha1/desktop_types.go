package v1alpha1

// Protocol is what the desktop speaks on its port.
//
// +kubebuilder:validation:Enum=HTTP;HTTPS
type Protocol string

// The protocols.
const (
	ProtocolHTTP  Protocol = "HTTP"
	ProtocolHTTPS Protocol = "HTTPS"
)

// EnvVar is a plain environment variable.
type EnvVar struct {
	// Name of the variable. With "env." before it, it is a key of a ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="the name of a variable has only letters, digits and _, and no digit first"
	Name string `json:"name"`
	// Value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}

// ConfigFile is a text file for a desktop.
type ConfigFile struct {
	// Name of the file in the directory of files.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9_][-A-Za-z0-9_.]*$') && !self.startsWith('env.')",message="the name of a file has only letters, digits and -_., and begins neither with a dot nor with env."
	Name string `json:"name"`
	// Content of the file.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Content string `json:"content,omitempty"`
}

// SecretUse is how a desktop gets a Secret.
//
// +kubebuilder:validation:XValidation:rule="has(self.mountPath) || (has(self.env) && size(self.env) > 0)",message="give a mountPath, env, or both"
type SecretUse struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a Secret"
	Name string `json:"name"`
	// MountPath is the directory in which each key is a file.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.][-A-Za-z0-9_./]*$') && !self.contains('..')",message="must be an absolute path below /, without .."
	MountPath string `json:"mountPath,omitempty"`
	// Env are variables whose values are keys of the Secret.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Env []SecretEnvVar `json:"env,omitempty"`
}

// SecretEnvVar is a variable whose value is a key of a Secret.
type SecretEnvVar struct {
	// Name of the variable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="the name of a variable has only letters, digits and _, and no digit first"
	Name string `json:"name"`
	// Key of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// AccessMode is how a user proves to a desktop who he is.
//
// +kubebuilder:validation:Enum=Password;None
type AccessMode string

// The access modes.
const (
	// AccessPassword: the hub makes a random password for each run.
	AccessPassword AccessMode = "Password"
	// AccessNone: the desktop does not authenticate its users, or a proxy does.
	AccessNone AccessMode = "None"
)

// Access is how a user proves to a desktop who he is.
type Access struct {
	// Mode, by default Password: username and password are files in
	// /etc/vdi/access of the desktop, and in a Secret in the session's own
	// namespace on the hub.
	// +optional
	// +kubebuilder:default=Password
	Mode AccessMode `json:"mode,omitempty"`
	// PasswordEnv is a variable that has the password, for images that read no
	// file.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="the name of a variable has only letters, digits and _, and no digit first"
	PasswordEnv string `json:"passwordEnv,omitempty"`
}

// Activity is how a desktop reports whether it is used. Without a path, any new
// value of the annotation vdi.kasm.io/activity on its Pod is activity.
type Activity struct {
	// Path on the desktop's port that answers GET with {"idleSeconds": 12.5}.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.~/]*$')",message="must begin with / and have only letters, digits and -_.~/ after it"
	Path string `json:"path,omitempty"`
}

// Retention is what becomes of a home after its last use.
//
// +kubebuilder:validation:Enum=Delete;Retain
type Retention string

// The retentions.
const (
	RetentionDelete Retention = "Delete"
	RetentionRetain Retention = "Retain"
)

// NetworkPolicyMode is whom a desktop may talk to.
//
// +kubebuilder:validation:Enum=Isolated;Open
type NetworkPolicyMode string

// The network policy modes.
const (
	// NetworkIsolated: reached from the gateway only; reaches DNS and the world,
	// but no cluster, private, node-local or metadata address.
	NetworkIsolated NetworkPolicyMode = "Isolated"
	// NetworkOpen: no NetworkPolicy is made.
	NetworkOpen NetworkPolicyMode = "Open"
)

// TemplateNetworkPolicy is whom a desktop may talk to.
type TemplateNetworkPolicy struct {
	// Mode, by default Isolated.
	// +optional
	// +kubebuilder:default=Isolated
	Mode NetworkPolicyMode `json:"mode,omitempty"`
	// EgressCIDRs may be reached besides, such as a file server's.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="an entry is a CIDR, such as 10.20.0.0/16"
	EgressCIDRs []string `json:"egressCIDRs,omitempty"`
}
