package scenarios

import (
	"context"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// loads returns the scenarios under a high rate of changes.
func loads() []runner.Scenario {
	return []runner.Scenario{
		{Name: "sigterm-under-load", EndsProcesses: true, Size: 40, Do: sigterm},
		{Name: "status-storm", Size: 60, Do: statusStorm},
		{Name: "status-storm-of-simulated", Size: 12, Do: simulatedStorm},
	}
}

// sigterm sends SIGTERM to the leader and to an agent, as a rollout does.
func sigterm(ctx context.Context, r *runner.Run) error {
	for range runner.Rounds {
		if err := r.PauseRandomly(ctx, 20*time.Second); err != nil {
			return err
		}
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		for _, p := range []*harness.Process{leader.Process, r.RandomMember().Leading(ctx).Process} {
			requested := time.Now()
			if err := p.Stop(); err != nil {
				return err
			}
			r.Record("SIGTERM %s, which ended after %s", p.Spec.Name, time.Since(requested).Round(time.Millisecond))
		}
	}
	return nil
}
