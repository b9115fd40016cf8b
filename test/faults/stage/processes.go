package stage

import (
	"errors"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// KillAgents kills all replicas of a member's agent.
func KillAgents(m *harness.Member) error {
	var errs []error
	for _, a := range m.Agents {
		errs = append(errs, a.Kill())
	}
	return errors.Join(errs...)
}
