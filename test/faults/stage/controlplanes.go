package stage

import (
	"context"
	"errors"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// IsRemoved reports whether a member never returns.
func (s *Stage) IsRemoved(member string) bool {
	for m := range s.Removed {
		if m.Name == member {
			return true
		}
	}
	return false
}

// ControlPlanes returns the control planes of the hub and of all members that are not removed.
func (s *Stage) ControlPlanes() []*harness.ControlPlane {
	all := []*harness.ControlPlane{s.Fleet.Hub.ControlPlane}
	for _, m := range s.Fleet.Members {
		if !s.Removed[m] {
			all = append(all, m.ControlPlane)
		}
	}
	return all
}

// RestartControlPlane starts the processes of a control plane that a scenario left down.
func RestartControlPlane(ctx context.Context, cp *harness.ControlPlane) error {
	for _, p := range []*harness.Process{cp.Etcd, cp.APIServer} {
		if !p.Running() {
			if err := p.Start(); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return cp.WaitAPI(ctx)
}

// RestartAfterOutage restarts a control plane whose API server was down for more than 10 s. With
// leader election its controllers would have exited meanwhile; without, their caches follow the API
// server only up to two minutes later, see proto/reconnect.
func RestartAfterOutage(ctx context.Context, cp *harness.ControlPlane) error {
	if err := RestartControlPlane(ctx, cp); err != nil {
		return err
	}
	for _, p := range []*harness.Process{cp.ControllerManager, cp.Scheduler} {
		if p == nil {
			continue
		}
		if err := errors.Join(p.Kill(), p.Start()); err != nil {
			return err
		}
	}
	return nil
}
