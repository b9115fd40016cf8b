package faults

import (
	"context"
	"time"
)

// kills ends processes as a power cut does.
func kills() []scenario {
	return []scenario{
		{name: "hub-kill", ends: true, short: true, do: hubKill},
		{name: "hub-kill-before-epoch", ends: true, do: hubKillBeforeEpoch},
		{name: "hub-kill-after-epoch", ends: true, do: hubKillAfterEpoch},
		{name: "hub-kill-after-send", ends: true, do: hubKillAfterSend},
		{name: "hub-kill-before-ack", ends: true, do: hubKillBeforeAck},
		{name: "hub-kill-both", ends: true, do: hubKillBoth},
		{name: "agent-kill-before-ack", ends: true, short: true, do: agentKillBeforeAck},
		{name: "agent-kill-in-inventory", ends: true, size: 48, do: agentKillInInventory},
	}
}

// rounds is how often a moment is hit in one scenario.
const rounds = 3

// hubKill kills the leader at random moments under the workload.
func hubKill(ctx context.Context, r *run) error {
	for range rounds {
		if err := r.moment(ctx, 15*time.Second); err != nil {
			return err
		}
		if err := r.killLeader(ctx, "at a random moment"); err != nil {
			return err
		}
	}
	return nil
}

// hubKillBeforeEpoch kills the leader within milliseconds after a session was
// accepted.
func hubKillBeforeEpoch(ctx context.Context, r *run) error {
	for n := range rounds {
		leader, err := r.leader(ctx)
		if err != nil {
			return err
		}
		uid, err := r.marked(ctx, n, r.member())
		if err != nil {
			return err
		}
		if err := sleep(ctx, time.Duration(r.random.IntN(8))*time.Millisecond); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		r.harm("kill -9 %s (leader) as session %s was accepted", leader.Spec.Name, uid)
		if err := r.await(ctx, "the marked session is placed", placed(uid)); err != nil {
			return err
		}
	}
	return nil
}

// hubKillAfterEpoch kills the leader as soon as the epoch is durable.
func hubKillAfterEpoch(ctx context.Context, r *run) error {
	for n := range rounds {
		m := r.member()
		leader, err := r.leader(ctx)
		if err != nil {
			return err
		}
		uid, err := r.marked(ctx, n, m)
		if err != nil {
			return err
		}
		if err := r.await(ctx, "the marked session is placed", placed(uid)); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		r.harm("kill -9 %s (leader) as the epoch of %s was durable", leader.Spec.Name, uid)
		if err := r.await(ctx, "the marked session runs", runs(uid)); err != nil {
			return err
		}
	}
	return nil
}

// hubKillAfterSend kills the leader as soon as the member has stored what it
// sent.
func hubKillAfterSend(ctx context.Context, r *run) error {
	for n := range rounds {
		m := r.member()
		leader, err := r.leader(ctx)
		if err != nil {
			return err
		}
		uid, err := r.marked(ctx, n, m)
		if err != nil {
			return err
		}
		if err := r.await(ctx, m.Name+" stores the marked session", stored(m, uid)); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		r.harm("kill -9 %s (leader) as %s stored %s", leader.Spec.Name, m.Name, uid)
		if err := r.await(ctx, "the marked session runs", runs(uid)); err != nil {
			return err
		}
	}
	return nil
}

// hubKillBeforeAck lets the orders through, and no answer.
func hubKillBeforeAck(ctx context.Context, r *run) error {
	for n := range rounds {
		m := r.member()
		if err := r.healthIs(ctx, m.Name, "Connected", true); err != nil {
			return err
		}
		leader, err := r.leader(ctx)
		if err != nil {
			return err
		}
		r.weather(m.Name, weather{CutToHub: true}, "no answer of the agent arrives")
		uid, err := r.marked(ctx, n, m)
		if err != nil {
			return err
		}
		if err := r.moment(ctx, 2*time.Second); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		r.harm("kill -9 %s (leader) before an answer about %s", leader.Spec.Name, uid)
		r.weather(m.Name, weather{}, "healed")
		if err := r.await(ctx, "the marked session runs", runs(uid)); err != nil {
			return err
		}
	}
	return nil
}

// hubKillBoth leaves no replica for a while.
func hubKillBoth(ctx context.Context, r *run) error {
	for _, replica := range r.fleet.Hub.Replicas {
		r.supervisor.hold(replica.Process, true)
		r.harm("kill -9 %s, which stays down", replica.Spec.Name)
		if err := replica.Kill(); err != nil {
			return err
		}
	}
	if err := r.pause(ctx, time.Minute); err != nil {
		return err
	}
	r.harm("both replicas may start again")
	r.supervisor.releaseAll()
	return nil
}

// agentKillBeforeAck kills an agent as soon as its API server has what it was
// sent.
func agentKillBeforeAck(ctx context.Context, r *run) error {
	for n := range rounds {
		m := r.member()
		uid, err := r.marked(ctx, n, m)
		if err != nil {
			return err
		}
		if err := r.await(ctx, m.Name+" stores the marked session", stored(m, uid)); err != nil {
			return err
		}
		agent := m.Leading(ctx)
		if err := agent.Kill(); err != nil {
			return err
		}
		r.harm("kill -9 %s as %s was stored", agent.Spec.Name, uid)
		if err := r.await(ctx, "the marked session runs", runs(uid)); err != nil {
			return err
		}
	}
	return nil
}

// agentKillInInventory kills an agent while it says what it holds, over a line
// so slow that this takes seconds.
func agentKillInInventory(ctx context.Context, r *run) error {
	m := r.member()
	if err := r.pause(ctx, 10*time.Second); err != nil {
		return err
	}
	r.weather(m.Name, weather{Rate: 8 << 10}, "8 kB a second")
	for range rounds {
		r.harm("%s: connections reset, so that it says its inventory again", m.Name)
		r.wires[m.Name].reset()
		if err := r.moment(ctx, 20*time.Second); err != nil {
			return err
		}
		agent := m.Leading(ctx)
		r.harm("kill -9 %s", agent.Spec.Name)
		if err := agent.Kill(); err != nil {
			return err
		}
		if err := r.moment(ctx, 20*time.Second); err != nil {
			return err
		}
	}
	return nil
}
