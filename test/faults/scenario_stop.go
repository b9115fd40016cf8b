package faults

import (
	"context"
	"errors"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// stops freezes processes: they do not know that time has passed.
func stops() []scenario {
	return []scenario{
		{name: "hub-stop", ends: true, do: hubStop},
		{name: "hub-stop-short", ends: true, do: func(ctx context.Context, r *run) error { return hubFrozen(ctx, r, 8*time.Second) }},
		{name: "agent-stop", ends: true, do: func(ctx context.Context, r *run) error { return agentFrozen(ctx, r, 70*time.Second) }},
		{name: "agent-stop-short", do: func(ctx context.Context, r *run) error { return agentFrozen(ctx, r, 10*time.Second) }},
	}
}

// hubStop freezes the leader until another leads, and wakes it under the
// other's eyes: it may grant nothing and write nothing.
func hubStop(ctx context.Context, r *run) error {
	for range 2 {
		leader, err := r.leader(ctx)
		if err != nil {
			return err
		}
		r.harm("SIGSTOP %s (leader)", leader.Spec.Name)
		if err := leader.Pause(); err != nil {
			return err
		}
		if err := r.anotherLeads(ctx, leader); err != nil {
			return err
		}
		if err := r.moment(ctx, 20*time.Second); err != nil {
			return err
		}
		r.harm("SIGCONT %s, which led", leader.Spec.Name)
		if err := leader.Resume(); err != nil {
			return err
		}
		if err := r.moment(ctx, 20*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) anotherLeads(ctx context.Context, old *harness.Replica) error {
	return poll(ctx, r.scaled(time.Minute)+allowance, func(ctx context.Context) error {
		if now := r.fleet.Hub.Leader(ctx); now == nil || now == old {
			return errors.New("no other replica leads")
		}
		return nil
	})
}

// hubFrozen freezes the leader for less than its lock holds.
func hubFrozen(ctx context.Context, r *run, d time.Duration) error {
	for range 2 {
		leader, err := r.leader(ctx)
		if err != nil {
			return err
		}
		r.harm("SIGSTOP %s (leader) for %s", leader.Spec.Name, r.scaled(d))
		if err := leader.Pause(); err != nil {
			return err
		}
		if err := r.pause(ctx, d); err != nil {
			return err
		}
		r.harm("SIGCONT %s", leader.Spec.Name)
		if err := leader.Resume(); err != nil {
			return err
		}
		if err := r.moment(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func agentFrozen(ctx context.Context, r *run, d time.Duration) error {
	for range 2 {
		m := r.member()
		agent := m.Leading(ctx)
		r.harm("SIGSTOP %s for %s", agent.Spec.Name, r.scaled(d))
		r.away(m.Name)
		if err := agent.Pause(); err != nil {
			return err
		}
		if err := r.pause(ctx, d); err != nil {
			return err
		}
		r.harm("SIGCONT %s", agent.Spec.Name)
		if err := agent.Resume(); err != nil {
			return err
		}
		if err := r.moment(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}
