package v1alpha1

// AgentBootstrap is the Secret in the agent's namespace with the hub's address and the
// join token. Once joined, the agent deletes the token; while it is not connected, it
// joins with a new one.
const (
	AgentBootstrap = "vdi-agent-bootstrap"
	// BootstrapMember is the key of the MemberCluster's name, for information only.
	BootstrapMember = "member"
	// BootstrapHub is the key of the host and port of the hub.
	BootstrapHub = "hub"
	// BootstrapServerName is the key of the DNS name in the hub's certificate; defaults
	// to the host of BootstrapHub.
	BootstrapServerName = "serverName"
	// BootstrapCAHash is the key of the hashes of the hub's CAs, comma-separated: one of
	// them must have issued its certificate.
	BootstrapCAHash = "caHash"
	// BootstrapToken is the key of the join token.
	BootstrapToken = "token"
)
