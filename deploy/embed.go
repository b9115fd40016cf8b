// Package deploy holds the manifests that commands apply themselves. They are
// the same files that `make deploy` and people apply.
package deploy

import _ "embed"

// What an agent needs in its member, in the order of application; the CRD of
// SessionAssignment and what is in the agent's namespace last.
var (
	//go:embed crds/vdi.kasm.io_sessionassignments.yaml
	SessionAssignments []byte
	//go:embed rbac/agent.yaml
	AgentRBAC []byte
	//go:embed agent.yaml
	Agent []byte
)
