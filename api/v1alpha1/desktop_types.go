package v1alpha1

// Protocol is the protocol that a desktop serves on its port.
//
// +kubebuilder:validation:Enum=HTTP;HTTPS
type Protocol string

// The protocols.
const (
	ProtocolHTTP  Protocol = "HTTP"
	ProtocolHTTPS Protocol = "HTTPS"
)

// EnvVar is an environment variable with a plain value.
type EnvVar struct {
	// name of the variable: letters, digits and _, not beginning with a digit. At most
	// 249 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=249
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="must consist of letters, digits and _, and must not begin with a digit"
	Name string `json:"name"`
	// value of the variable. Defaults to "". At most 4096 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value,omitempty"`
}

// ConfigFile is a text file in a desktop.
type ConfigFile struct {
	// name of the file in the template's configMountPath. Must not begin with "." or
	// "env.".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9_][-A-Za-z0-9_.]*$')",message="must consist of letters, digits and -_., and must not begin with '.'"
	Name string `json:"name"`
	// content of the file. Defaults to "". At most 16384 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Content string `json:"content,omitempty"`
}

// SecretUse makes a Secret available in a desktop: as files, as environment variables, or
// both.
//
// +kubebuilder:validation:XValidation:rule="has(self.mountPath) || (has(self.env) && size(self.env) > 0)",message="set mountPath, env or both"
type SecretUse struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a Secret"
	Name string `json:"name"`
	// mountPath is the absolute path of the directory in which each key of the Secret is
	// a file. Defaults to no files.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.][-A-Za-z0-9_./]*$') && !self.contains('..')",message="must be an absolute path below /, without .."
	MountPath string `json:"mountPath,omitempty"`
	// env lists environment variables whose values are keys of the Secret.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Env []SecretEnvVar `json:"env,omitempty"`
}

// SecretEnvVar is an environment variable whose value is a key of a Secret.
type SecretEnvVar struct {
	// name of the variable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="must consist of letters, digits and _, and must not begin with a digit"
	Name string `json:"name"`
	// key of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// AccessMode defines how a desktop authenticates its user.
//
// +kubebuilder:validation:Enum=Password;None
type AccessMode string

// The access modes.
const (
	// AccessPassword: the hub creates a random password for each run.
	AccessPassword AccessMode = "Password"
	// AccessNone: the desktop does not authenticate its user, or a proxy does.
	AccessNone AccessMode = "None"
)

// Access defines how a desktop authenticates its user.
type Access struct {
	// mode of authentication. Password: username and password are files in
	// /etc/vdi/access of the desktop, and keys of a Secret in the session's namespace on
	// the hub. None: there is no such Secret. Defaults to Password.
	// +optional
	// +kubebuilder:default=Password
	Mode AccessMode `json:"mode,omitempty"`
	// passwordEnv is an environment variable that also receives the password, for images
	// that do not read files. Defaults to none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="must consist of letters, digits and _, and must not begin with a digit"
	PasswordEnv string `json:"passwordEnv,omitempty"`
	// username of the Basic authentication that the desktop expects, such as kasm_user. It is
	// in the same places as the password. Defaults to desktop.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_.@-]+$')",message="must consist of letters, digits and _.@-"
	Username string `json:"username,omitempty"`
}

// Activity defines how a desktop reports when it was last used. Without a path, every new
// value of the annotation vdi.kasm.io/activity on its Pod counts as activity.
type Activity struct {
	// path on the desktop's port that answers GET with the seconds since the last
	// activity of its user: {"idleSeconds": 12.5}. Any other answer means unknown, and
	// never ends a session.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.~/]*$')",message="must begin with / and consist of letters, digits and -_.~/"
	Path string `json:"path,omitempty"`
}

// Retention defines what happens to a home after its last use.
//
// +kubebuilder:validation:Enum=Delete;Retain
type Retention string

// The retentions.
const (
	RetentionDelete Retention = "Delete"
	RetentionRetain Retention = "Retain"
)

// NetworkPolicyMode defines the network access of a desktop.
//
// +kubebuilder:validation:Enum=Isolated;Open
type NetworkPolicyMode string

// The network policy modes.
const (
	// NetworkIsolated allows ingress from the gateway, and egress to DNS and public
	// addresses: not to cluster, private, node-local or metadata addresses.
	NetworkIsolated NetworkPolicyMode = "Isolated"
	// NetworkOpen creates no NetworkPolicy.
	NetworkOpen NetworkPolicyMode = "Open"
)

// TemplateNetworkPolicy defines the network access of a desktop.
type TemplateNetworkPolicy struct {
	// mode Isolated allows ingress from the gateway only, and egress to DNS, public
	// addresses and egressCIDRs. Open creates no NetworkPolicy. Defaults to Isolated.
	// +optional
	// +kubebuilder:default=Isolated
	Mode NetworkPolicyMode `json:"mode,omitempty"`
	// egressCIDRs are further addresses that the desktop may reach, such as those of a
	// file server. The member's administrator must allow private and link-local ones.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="each entry must be a CIDR, such as 10.20.0.0/16"
	EgressCIDRs []string `json:"egressCIDRs,omitempty"`
}
