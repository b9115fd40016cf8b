package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/simulated"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
)

// simulatedAgents is the number of simulated agents beside the fleet's own.
const simulatedAgents = 200

// crowds returns the scenarios with more agents than this machine can run processes.
func crowds() []runner.Scenario {
	return []runner.Scenario{
		{Name: "hub-restart-200-simulated", EndsProcesses: true, Size: 12, Do: hubRestartCrowd},
	}
}

// hubRestartCrowd kills the leader of 200 agents, and measures when the next one serves the last of
// them.
func hubRestartCrowd(ctx context.Context, r *runner.Run) error {
	all, err := runner.SimulateAgents(ctx, r, simulatedAgents)
	if err != nil {
		return err
	}
	if err := awaitServed(ctx, r, all, 1); err != nil {
		return err
	}
	if err := r.KillLeader(ctx, fmt.Sprintf("with %d simulated agents", len(all))); err != nil {
		return err
	}
	began := time.Now()
	if err := awaitServed(ctx, r, all, 2); err != nil {
		return err
	}
	r.Record("all are served by the next leader after %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// awaitServed waits until so many leaders have served each agent.
func awaitServed(ctx context.Context, r *runner.Run, all []*simulated.Agent, leaders int) error {
	return stage.Poll(ctx, r.Scaled(2*time.Minute)+stage.Allowance, func(context.Context) error {
		missing := 0
		for _, s := range all {
			if s.Leaders() < leaders {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d simulated agents were not served by leader %d", missing, len(all), leaders)
		}
		return nil
	})
}
