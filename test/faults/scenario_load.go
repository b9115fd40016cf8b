package faults

import (
	"context"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// loads makes haste.
func loads() []scenario {
	return []scenario{
		{name: "sigterm-under-load", ends: true, size: 40, do: sigterm},
		{name: "status-storm", size: 60, do: statusStorm},
		{name: "status-storm-of-simulated", size: 12, do: simulatedStorm},
	}
}

// sigterm asks the leader and an agent to end, as a rollout does.
func sigterm(ctx context.Context, r *run) error {
	for range rounds {
		if err := r.moment(ctx, 20*time.Second); err != nil {
			return err
		}
		leader, err := r.leader(ctx)
		if err != nil {
			return err
		}
		for _, p := range []*harness.Process{leader.Process, r.member().Leading(ctx).Process} {
			asked := time.Now()
			if err := p.Stop(); err != nil {
				return err
			}
			r.harm("SIGTERM %s, which ended after %s", p.Spec.Name, time.Since(asked).Round(time.Millisecond))
		}
	}
	return nil
}
