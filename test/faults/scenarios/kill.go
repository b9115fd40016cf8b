package scenarios

import (
	"context"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
)

// kills returns the scenarios that end processes as a power cut does.
func kills() []runner.Scenario {
	return []runner.Scenario{
		{Name: "hub-kill", EndsProcesses: true, Short: true, Do: hubKill},
		{Name: "hub-kill-before-epoch", EndsProcesses: true, Do: hubKillBeforeEpoch},
		{Name: "hub-kill-after-epoch", EndsProcesses: true, Do: hubKillAfterEpoch},
		{Name: "hub-kill-after-send", EndsProcesses: true, Do: hubKillAfterSend},
		{Name: "hub-kill-before-ack", EndsProcesses: true, Do: hubKillBeforeAck},
		{Name: "hub-kill-both", EndsProcesses: true, Do: hubKillBoth},
		{Name: "agent-kill-before-ack", EndsProcesses: true, Short: true, Do: agentKillBeforeAck},
		{Name: "agent-kill-in-inventory", EndsProcesses: true, Size: 48, Do: agentKillInInventory},
	}
}

// hubKill kills the leader at random moments under the workload.
func hubKill(ctx context.Context, r *runner.Run) error {
	for range runner.Rounds {
		if err := r.PauseRandomly(ctx, 15*time.Second); err != nil {
			return err
		}
		if err := r.KillLeader(ctx, "at a random moment"); err != nil {
			return err
		}
	}
	return nil
}

// hubKillBeforeEpoch kills the leader within milliseconds after a session was accepted.
func hubKillBeforeEpoch(ctx context.Context, r *runner.Run) error {
	for n := range runner.Rounds {
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		uid, err := runner.CreateSession(ctx, r, n, r.RandomMember())
		if err != nil {
			return err
		}
		if err := stage.Sleep(ctx, time.Duration(r.Random.IntN(8))*time.Millisecond); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		r.Record("kill -9 %s (leader) as session %s was accepted", leader.Spec.Name, uid)
		if err := r.Await(ctx, "the session is placed", runner.Placed(uid)); err != nil {
			return err
		}
	}
	return nil
}

// hubKillAfterEpoch kills the leader as soon as the epoch is durable.
func hubKillAfterEpoch(ctx context.Context, r *runner.Run) error {
	for n := range runner.Rounds {
		m := r.RandomMember()
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		uid, err := runner.CreateSession(ctx, r, n, m)
		if err != nil {
			return err
		}
		if err := r.Await(ctx, "the session is placed", runner.Placed(uid)); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		r.Record("kill -9 %s (leader) as the epoch of %s was durable", leader.Spec.Name, uid)
		if err := r.Await(ctx, "the session runs", runner.Running(uid)); err != nil {
			return err
		}
	}
	return nil
}

// hubKillAfterSend kills the leader as soon as the member has stored its order.
func hubKillAfterSend(ctx context.Context, r *runner.Run) error {
	for n := range runner.Rounds {
		m := r.RandomMember()
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		uid, err := runner.CreateSession(ctx, r, n, m)
		if err != nil {
			return err
		}
		if err := r.Await(ctx, m.Name+" stores the session", runner.Stored(m, uid)); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		r.Record("kill -9 %s (leader) as %s stored %s", leader.Spec.Name, m.Name, uid)
		if err := r.Await(ctx, "the session runs", runner.Running(uid)); err != nil {
			return err
		}
	}
	return nil
}

// hubKillBeforeAck kills the leader when its orders have arrived, and no acknowledgement has.
func hubKillBeforeAck(ctx context.Context, r *runner.Run) error {
	for n := range runner.Rounds {
		m := r.RandomMember()
		if err := runner.AwaitReadyReason(ctx, r, m.Name, "Connected", true); err != nil {
			return err
		}
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		r.SetNetwork(m.Name, netem.Conditions{CutToHub: true}, "no answer of the agent arrives")
		uid, err := runner.CreateSession(ctx, r, n, m)
		if err != nil {
			return err
		}
		if err := r.PauseRandomly(ctx, 2*time.Second); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		r.Record("kill -9 %s (leader) before an answer about %s", leader.Spec.Name, uid)
		r.SetNetwork(m.Name, netem.Conditions{}, "restored")
		if err := r.Await(ctx, "the session runs", runner.Running(uid)); err != nil {
			return err
		}
	}
	return nil
}

// hubKillBoth kills both replicas, which stay down for a while.
func hubKillBoth(ctx context.Context, r *runner.Run) error {
	for _, replica := range r.Fleet.Hub.Replicas {
		r.Supervisor.Hold(replica.Process, true)
		r.Record("kill -9 %s, which stays down", replica.Spec.Name)
		if err := replica.Kill(); err != nil {
			return err
		}
	}
	if err := r.Pause(ctx, time.Minute); err != nil {
		return err
	}
	r.Record("both replicas may start again")
	r.Supervisor.ReleaseAll()
	return nil
}

// agentKillBeforeAck kills an agent as soon as its API server has stored the order.
func agentKillBeforeAck(ctx context.Context, r *runner.Run) error {
	for n := range runner.Rounds {
		m := r.RandomMember()
		uid, err := runner.CreateSession(ctx, r, n, m)
		if err != nil {
			return err
		}
		if err := r.Await(ctx, m.Name+" stores the session", runner.Stored(m, uid)); err != nil {
			return err
		}
		agent := m.Leading(ctx)
		if err := agent.Kill(); err != nil {
			return err
		}
		r.Record("kill -9 %s as %s was stored", agent.Spec.Name, uid)
		if err := r.Await(ctx, "the session runs", runner.Running(uid)); err != nil {
			return err
		}
	}
	return nil
}

// agentKillInInventory kills an agent while it sends its inventory, over a link so slow that this
// takes seconds.
func agentKillInInventory(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	if err := r.Pause(ctx, 10*time.Second); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{Rate: 8 << 10}, "8 kB a second")
	for range runner.Rounds {
		r.Record("%s: connections reset, so that it sends its inventory again", m.Name)
		r.Links[m.Name].Reset()
		if err := r.PauseRandomly(ctx, 20*time.Second); err != nil {
			return err
		}
		agent := m.Leading(ctx)
		r.Record("kill -9 %s", agent.Spec.Name)
		if err := agent.Kill(); err != nil {
			return err
		}
		if err := r.PauseRandomly(ctx, 20*time.Second); err != nil {
			return err
		}
	}
	return nil
}
