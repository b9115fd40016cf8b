package scenarios

import (
	"context"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
)

// stops returns the scenarios that freeze processes.
func stops() []runner.Scenario {
	return []runner.Scenario{
		{Name: "hub-stop", EndsProcesses: true, Do: hubStop},
		{Name: "hub-stop-short", EndsProcesses: true, Do: func(ctx context.Context, r *runner.Run) error { return hubFrozen(ctx, r, 8*time.Second) }},
		{Name: "agent-stop", EndsProcesses: true, Do: func(ctx context.Context, r *runner.Run) error { return agentFrozen(ctx, r, 70*time.Second) }},
		{Name: "agent-stop-short", Do: func(ctx context.Context, r *runner.Run) error { return agentFrozen(ctx, r, 10*time.Second) }},
	}
}

// hubStop freezes the leader until another leads, and then resumes it: it must grant nothing and
// write nothing.
func hubStop(ctx context.Context, r *runner.Run) error {
	for range 2 {
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		r.Record("SIGSTOP %s (leader)", leader.Spec.Name)
		if err := leader.Pause(); err != nil {
			return err
		}
		if err := runner.AwaitOtherLeader(ctx, r, leader); err != nil {
			return err
		}
		if err := r.PauseRandomly(ctx, 20*time.Second); err != nil {
			return err
		}
		r.Record("SIGCONT %s, which led", leader.Spec.Name)
		if err := leader.Resume(); err != nil {
			return err
		}
		if err := r.PauseRandomly(ctx, 20*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// hubFrozen freezes the leader for less than its leader lease lasts.
func hubFrozen(ctx context.Context, r *runner.Run, d time.Duration) error {
	for range 2 {
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		r.Record("SIGSTOP %s (leader) for %s", leader.Spec.Name, r.Scaled(d))
		if err := leader.Pause(); err != nil {
			return err
		}
		if err := r.Pause(ctx, d); err != nil {
			return err
		}
		r.Record("SIGCONT %s", leader.Spec.Name)
		if err := leader.Resume(); err != nil {
			return err
		}
		if err := r.PauseRandomly(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func agentFrozen(ctx context.Context, r *runner.Run, d time.Duration) error {
	for range 2 {
		m := r.RandomMember()
		agent := m.Leading(ctx)
		r.Record("SIGSTOP %s for %s", agent.Spec.Name, r.Scaled(d))
		r.RecordOutage(m.Name)
		if err := agent.Pause(); err != nil {
			return err
		}
		if err := r.Pause(ctx, d); err != nil {
			return err
		}
		r.Record("SIGCONT %s", agent.Spec.Name)
		if err := agent.Resume(); err != nil {
			return err
		}
		if err := r.PauseRandomly(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}
