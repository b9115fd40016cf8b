package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/probe"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// longOutage is an outage of a member's API server that moves no session and stops no desktop: the
// agent keeps its link and lease (docs/design.md, section 5).
const longOutage = 10 * time.Minute

// replicas returns the scenarios that take the API server, or the leader, from an agent with two
// replicas.
func replicas() []runner.Scenario {
	return []runner.Scenario{
		{Name: "api-outage", Do: apiOutage},
		{Name: "agent-leader-killed", EndsProcesses: true, Do: agentLeaderKilled},
		{Name: "agent-leader-killed-in-outage", EndsProcesses: true, Do: agentLeaderKilledInOutage},
		{Name: "agent-leader-frozen", EndsProcesses: true, Do: agentLeaderFrozen},
		{Name: "agent-leader-cut-from-api", EndsProcesses: true, Do: agentLeaderCutFromAPI},
	}
}

// pair is the agent with two replicas: its leader and its standby.
type pair struct {
	member           *harness.Member
	leading, standby *harness.Agent
}

func replicaPair(ctx context.Context, r *runner.Run) (pair, error) {
	m := r.Fleet.Member(stage.Replicated)
	p := pair{member: m, leading: m.Leading(ctx)}
	for _, a := range m.Agents {
		if a != p.leading {
			p.standby = a
		}
	}
	if p.standby == nil {
		return p, fmt.Errorf("the agent of %s has %d replicas", m.Name, len(m.Agents))
	}
	return p, errors.Join(p.leading.WaitReady(ctx), p.standby.WaitReady(ctx))
}

// pairWithProbes returns the pair, once probes of every kind run in its member.
func pairWithProbes(ctx context.Context, r *runner.Run) (pair, probe.Probes, error) {
	p, err := replicaPair(ctx, r)
	if err != nil {
		return p, nil, err
	}
	all, err := probe.Create(ctx, r, p.member, probe.Standard)
	return p, all, err
}

// hubConnection holds whether a replica is connected to the hub, and how often a connection of its
// process has ended.
type hubConnection struct {
	connected bool
	ended     float64
}

func connectionOf(ctx context.Context, m *harness.Member, a *harness.Agent) (hubConnection, error) {
	metrics, err := m.MetricsOf(ctx, a)
	if err != nil {
		return hubConnection{}, fmt.Errorf("reading the metrics of %s: %w", a.Spec.Name, err)
	}
	now := stage.Series(metrics)
	return hubConnection{connected: now["vdi_agent_link_connected"] == 1, ended: stage.Sum(now, "vdi_agent_link_connections_total")}, nil
}

// awaitOneConnected waits until one replica is connected to the hub, and the other is not.
func awaitOneConnected(ctx context.Context, r *runner.Run, m *harness.Member, one, other *harness.Agent) error {
	err := stage.Poll(ctx, r.Scaled(time.Minute)+2*stage.Allowance, func(ctx context.Context) error {
		of, err := connectionOf(ctx, m, one)
		if err != nil || !of.connected {
			return errors.Join(err, fmt.Errorf("%s is not connected to the hub", one.Spec.Name))
		}
		if of, err = connectionOf(ctx, m, other); err != nil || of.connected {
			return errors.Join(err, fmt.Errorf("%s is connected to the hub too: %t", other.Spec.Name, of.connected))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return runner.AwaitReadyReason(ctx, r, m.Name, v1alpha1.ReasonConnected, true)
}

// apiOutage keeps both replicas from renewing or taking the lock. The leader stays connected, the
// standby does not connect, and when the API server is back the same replica leads: nothing has
// moved, stopped or been recreated.
func apiOutage(ctx context.Context, r *runner.Run) error {
	p, all, err := pairWithProbes(ctx, r)
	if err != nil {
		return err
	}
	if err := awaitOneConnected(ctx, r, p.member, p.leading, p.standby); err != nil {
		return err
	}
	since := time.Now()
	if err := duringUnchanged(ctx, p, func() error { return outage(ctx, r, p, all, since) }); err != nil {
		return err
	}
	// A restart of everything would show by then.
	if err := r.Pause(ctx, stage.RestartAfter); err != nil {
		return err
	}
	return probe.CheckUntouched(r, all, since)
}

// outage stops the API server for longOutage, and starts it again.
func outage(ctx context.Context, r *runner.Run, p pair, all probe.Probes, since time.Time) error {
	if err := runner.KillAPIServer(r, p.member); err != nil {
		return err
	}
	if err := runner.AwaitReadyReason(ctx, r, p.member.Name, v1alpha1.ReasonSuspect, true); err != nil {
		return fmt.Errorf("the hub sends sessions where they can't be stored: %w", err)
	}
	if err := r.Pause(ctx, longOutage); err != nil {
		return err
	}
	reason, err := runner.ReadyReason(ctx, r, p.member.Name)
	if err != nil {
		return err
	}
	r.Record("%.1fs into the outage the hub shows %s as %s", time.Since(since).Seconds(), p.member.Name, reason)
	if err := probe.CheckUntouched(r, all, since); err != nil {
		return fmt.Errorf("during the outage: %w", err)
	}
	if err := runner.RestartAPIServer(ctx, r, p.member); err != nil {
		return err
	}
	if err := awaitOneConnected(ctx, r, p.member, p.leading, p.standby); err != nil {
		return fmt.Errorf("after the outage: %w", err)
	}
	return nil
}

// duringUnchanged injects a fault in which no replica may end, the leader's stream may not break,
// and the standby may not connect.
func duringUnchanged(ctx context.Context, p pair, inject func() error) error {
	pids := [2]int{p.leading.PID(), p.standby.PID()}
	before, err := connectionOf(ctx, p.member, p.leading)
	if err != nil {
		return err
	}
	silent, err := connectionOf(ctx, p.member, p.standby)
	if err != nil {
		return err
	}
	if err := inject(); err != nil {
		return err
	}
	after, err := connectionOf(ctx, p.member, p.leading)
	if err != nil {
		return err
	}
	still, err := connectionOf(ctx, p.member, p.standby)
	switch {
	case err != nil:
		return err
	case pids != [2]int{p.leading.PID(), p.standby.PID()}:
		return errors.New("a replica ended in the outage")
	case after.ended != before.ended:
		return fmt.Errorf("the stream of %s ended %v times in the outage", p.leading.Spec.Name, after.ended-before.ended)
	case still != silent:
		return fmt.Errorf("%s was connected to the hub in the outage", p.standby.Spec.Name)
	}
	return nil
}

// agentLeaderKilled checks that a leader that was killed is replaced before any session is
// affected.
func agentLeaderKilled(ctx context.Context, r *runner.Run) error {
	p, all, err := pairWithProbes(ctx, r)
	if err != nil {
		return err
	}
	since := time.Now()
	r.Supervisor.Hold(p.leading.Process, true)
	r.Record("kill -9 %s, which leads and stays down", p.leading.Spec.Name)
	if err := p.leading.Kill(); err != nil {
		return err
	}
	if err := awaitTakeover(ctx, r, p, since); err != nil {
		return err
	}
	r.Supervisor.Hold(p.leading.Process, false)
	if err := awaitOneConnected(ctx, r, p.member, p.standby, p.leading); err != nil {
		return fmt.Errorf("once the old leader is back: %w", err)
	}
	return probe.CheckUntouched(r, all, since)
}

// awaitTakeover waits until the standby is connected to the hub, which must be before the hub
// reschedules any session.
func awaitTakeover(ctx context.Context, r *runner.Run, p pair, since time.Time) error {
	limit := r.Scaled(stage.Unreachable+stage.RestartAfter) + stage.Allowance
	err := stage.Poll(ctx, limit, func(ctx context.Context) error {
		of, err := connectionOf(ctx, p.member, p.standby)
		if err == nil && !of.connected {
			err = fmt.Errorf("%s is not connected to the hub", p.standby.Spec.Name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("no replica takes the place of %s: %w", p.leading.Spec.Name, err)
	}
	r.Record("%s has taken over, %.1fs after the fault", p.standby.Spec.Name, time.Since(since).Seconds())
	return nil
}

// agentLeaderKilledInOutage kills the leader while the API server is away: the standby can't take
// its place, so that the member is lost until the API server is back.
func agentLeaderKilledInOutage(ctx context.Context, r *runner.Run) error {
	p, all, err := pairWithProbes(ctx, r)
	if err != nil {
		return err
	}
	if err := runner.KillAPIServer(r, p.member); err != nil {
		return err
	}
	if err := r.Pause(ctx, time.Minute); err != nil {
		return err
	}
	since := time.Now()
	r.Record("kill -9 %s, which leads; it starts again at once", p.leading.Spec.Name)
	if err := p.leading.Kill(); err != nil {
		return err
	}
	if err := probe.AwaitLeaseStop(ctx, r, all.OfMode(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := probe.AwaitFailover(ctx, r, all, since); err != nil {
		return err
	}
	if err := probe.CheckKeptRunning(r, all.OfMode(v1alpha1.FailoverHold), since); err != nil {
		return err
	}
	if err := runner.RestartAPIServer(ctx, r, p.member); err != nil {
		return err
	}
	if err := probe.AwaitOldStopped(ctx, r, all); err != nil {
		return err
	}
	leading := p.member.Leading(ctx)
	other := p.standby
	if leading == p.standby {
		other = p.leading
	}
	return awaitOneConnected(ctx, r, p.member, leading, other)
}

// agentLeaderFrozen freezes the leader until the standby has taken over. The old leader must
// detect that before it writes or connects, and end.
func agentLeaderFrozen(ctx context.Context, r *runner.Run) error {
	p, all, err := pairWithProbes(ctx, r)
	if err != nil {
		return err
	}
	since, pid := time.Now(), p.leading.PID()
	r.Record("SIGSTOP %s, which leads", p.leading.Spec.Name)
	if err := p.leading.Pause(); err != nil {
		return err
	}
	if err := awaitTakeover(ctx, r, p, since); err != nil {
		return err
	}
	if err := r.PauseRandomly(ctx, time.Minute); err != nil {
		return err
	}
	mark, err := harness.AuditMark(p.member.ControlPlane.AuditLog())
	if err != nil {
		return err
	}
	r.Supervisor.Hold(p.leading.Process, true)
	r.Record("SIGCONT %s, which led", p.leading.Spec.Name)
	if err := p.leading.Resume(); err != nil {
		return err
	}
	if err := awaitExit(ctx, r, p.leading, pid); err != nil {
		return err
	}
	if err := checkWroteNothing(p, mark); err != nil {
		return err
	}
	r.Supervisor.Hold(p.leading.Process, false)
	if err := awaitOneConnected(ctx, r, p.member, p.standby, p.leading); err != nil {
		return err
	}
	return probe.CheckUntouched(r, all, since)
}

// agentLeaderCutFromAPI cuts only the leader off from the API server, so that it can't detect
// there that the standby has taken over. The hub refuses it.
func agentLeaderCutFromAPI(ctx context.Context, r *runner.Run) error {
	p, all, err := pairWithProbes(ctx, r)
	if err != nil {
		return err
	}
	since, pid := time.Now(), p.leading.PID()
	r.Supervisor.Hold(p.leading.Process, true)
	r.Record("%s, which leads, is cut off from its API server, and not from the hub", p.leading.Spec.Name)
	r.APILinks[p.leading.Spec.Name].Set(netem.Conditions{CutToHub: true, CutToAgent: true})
	if err := awaitTakeover(ctx, r, p, since); err != nil {
		return err
	}
	if err := awaitExit(ctx, r, p.leading, pid); err != nil {
		return err
	}
	r.Record("restored")
	r.APILinks[p.leading.Spec.Name].Set(netem.Conditions{})
	r.Supervisor.Hold(p.leading.Process, false)
	if err := awaitOneConnected(ctx, r, p.member, p.standby, p.leading); err != nil {
		return err
	}
	return probe.CheckUntouched(r, all, since)
}

// awaitExit waits until a replica that no longer leads has ended.
func awaitExit(ctx context.Context, r *runner.Run, a *harness.Agent, pid int) error {
	err := stage.Poll(ctx, r.Scaled(time.Minute)+2*stage.Allowance, func(context.Context) error {
		if a.Running() && a.PID() == pid {
			return errors.New("it still runs")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s leads no more: %w", a.Spec.Name, err)
	}
	r.Record("%s has ended", a.Spec.Name)
	return nil
}

// checkWroteNothing checks in the audit log, from a mark on, that the old leader has written
// nothing but events and failed updates of its lock.
func checkWroteNothing(p pair, mark int64) error {
	wrote, err := harness.CountWrites(p.member.ControlPlane.AuditLog(), harness.CountOptions{
		Offset: mark, Agent: p.leading.PodName, Events: true, Leases: true,
	})
	if err != nil {
		return err
	}
	for _, w := range wrote {
		if w.Resource == "events" || w.Resource == "leases" && w.Failed == w.Count {
			continue
		}
		err = errors.Join(err, fmt.Errorf("G1: %s led no more, and wrote %+v", p.leading.Spec.Name, w))
	}
	return err
}
