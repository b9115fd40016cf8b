package deploy

import _ "embed"

// What an agent needs in its member.
var (
	//go:embed crds/vdi.kasm.io_sessionassignments.yaml
	SessionAssignments []byte
	//go:embed rbac/agent.yaml
	AgentRBAC []byte
	//go:embed agent/agent.yaml
	Agent []byte
)
