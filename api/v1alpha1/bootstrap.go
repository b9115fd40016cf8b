package v1alpha1

// AgentBootstrap is the Secret in the agent's namespace that says where the
// hub is and how to join it. Only the token is used up: an agent that has
// joined deletes that key, and takes up a new one whenever it is not connected.
const (
	AgentBootstrap = "vdi-agent-bootstrap"
	// BootstrapMember is the key of the MemberCluster's name, for people.
	BootstrapMember = "member"
	// BootstrapHub is the key of the host and port where the hub listens.
	BootstrapHub = "hub"
	// BootstrapServerName is the key of the DNS name that the hub's certificate
	// must have; by default the host of BootstrapHub.
	BootstrapServerName = "serverName"
	// BootstrapCAHash is the key of the hashes of the hub's authorities, of
	// which its certificate must be of one; separated by commas.
	BootstrapCAHash = "caHash"
	// BootstrapToken is the key of the join token.
	BootstrapToken = "token"
)
