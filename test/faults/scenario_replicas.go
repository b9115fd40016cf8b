package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// longOutage of a member's API server moves no session and stops no desktop:
// the agent's link and lease go on meanwhile (docs/design.md, section 5).
const longOutage = 10 * time.Minute

// replicas take the API server, or the leader, from an agent with two replicas.
func replicas() []scenario {
	return []scenario{
		{name: "api-outage", do: apiOutage},
		{name: "agent-leader-killed", ends: true, do: agentLeaderKilled},
		{name: "agent-leader-killed-in-outage", ends: true, do: agentLeaderKilledInOutage},
		{name: "agent-leader-frozen", ends: true, do: agentLeaderFrozen},
		{name: "agent-leader-cut-from-api", ends: true, do: agentLeaderCutFromAPI},
	}
}

// pair is the agent with two replicas, and who of it leads.
type pair struct {
	member           *harness.Member
	leading, standby *harness.Agent
}

func (r *run) pair(ctx context.Context) (pair, error) {
	m := r.fleet.Member(replicated)
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

// pairWithGuests is the pair, once guests of every kind run in its member.
func (r *run) pairWithGuests(ctx context.Context) (pair, guests, error) {
	p, err := r.pair(ctx)
	if err != nil {
		return p, nil, err
	}
	all, err := r.invite(ctx, p.member, oneHomed)
	return p, all, err
}

// speaks is what a replica has to do with the hub: whether it is connected, and how
// often a connection of its process has ended.
type speaks struct {
	connected bool
	ended     float64
}

func (r *run) speaks(ctx context.Context, m *harness.Member, a *harness.Agent) (speaks, error) {
	metrics, err := m.MetricsOf(ctx, a)
	if err != nil {
		return speaks{}, fmt.Errorf("reading the metrics of %s: %w", a.Spec.Name, err)
	}
	now := series(metrics)
	return speaks{connected: now["vdi_agent_link_connected"] == 1, ended: sum(now, "vdi_agent_link_connections_total")}, nil
}

// oneSpeaks waits until one replica is connected to the hub, and the other is not.
func (r *run) oneSpeaks(ctx context.Context, m *harness.Member, one, other *harness.Agent) error {
	err := poll(ctx, r.scaled(time.Minute)+2*allowance, func(ctx context.Context) error {
		of, err := r.speaks(ctx, m, one)
		if err != nil || !of.connected {
			return errors.Join(err, fmt.Errorf("%s is not connected to the hub", one.Spec.Name))
		}
		if of, err = r.speaks(ctx, m, other); err != nil || of.connected {
			return errors.Join(err, fmt.Errorf("%s is connected to the hub too: %t", other.Spec.Name, of.connected))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.healthIs(ctx, m.Name, v1alpha1.ReasonConnected, true)
}

// untouched: guests are where they were, and their desktops have run all along.
func (r *run) untouched(all guests, since time.Time) error {
	return errors.Join(r.stayed(all), r.ranOn(all, since))
}

// apiOutage: no replica can renew the lock or take it. The one that has it goes on
// speaking, the other does not begin, and when the API server is back the lead is
// where it was: nothing has moved, stopped or been recreated.
func apiOutage(ctx context.Context, r *run) error {
	p, all, err := r.pairWithGuests(ctx)
	if err != nil {
		return err
	}
	if err := r.oneSpeaks(ctx, p.member, p.leading, p.standby); err != nil {
		return err
	}
	since := time.Now()
	if err := r.sameSpeaker(ctx, p, func() error { return r.endureOutage(ctx, p, all, since) }); err != nil {
		return err
	}
	// What a restart of everything would do, it has done by then.
	if err := r.pause(ctx, restartAfter); err != nil {
		return err
	}
	return r.untouched(all, since)
}

// endureOutage takes the API server away for long, and gives it back.
func (r *run) endureOutage(ctx context.Context, p pair, all guests, since time.Time) error {
	if err := r.killAPI(p.member); err != nil {
		return err
	}
	if err := r.healthIs(ctx, p.member.Name, v1alpha1.ReasonSuspect, true); err != nil {
		return fmt.Errorf("the hub sends sessions where they can't be stored: %w", err)
	}
	if err := r.pause(ctx, longOutage); err != nil {
		return err
	}
	reason, err := r.health(ctx, p.member.Name)
	if err != nil {
		return err
	}
	r.harm("%.1fs into the outage the hub says of %s: %s", time.Since(since).Seconds(), p.member.Name, reason)
	if err := r.untouched(all, since); err != nil {
		return fmt.Errorf("during the outage: %w", err)
	}
	if err := r.reviveAPI(ctx, p.member); err != nil {
		return err
	}
	if err := r.oneSpeaks(ctx, p.member, p.leading, p.standby); err != nil {
		return fmt.Errorf("after the outage: %w", err)
	}
	return nil
}

// sameSpeaker does harm, in which no replica may end, the leader's stream may not break,
// and the other may not connect.
func (r *run) sameSpeaker(ctx context.Context, p pair, harm func() error) error {
	pids := [2]int{p.leading.PID(), p.standby.PID()}
	before, err := r.speaks(ctx, p.member, p.leading)
	if err != nil {
		return err
	}
	silent, err := r.speaks(ctx, p.member, p.standby)
	if err != nil {
		return err
	}
	if err := harm(); err != nil {
		return err
	}
	after, err := r.speaks(ctx, p.member, p.leading)
	if err != nil {
		return err
	}
	still, err := r.speaks(ctx, p.member, p.standby)
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

// agentLeaderKilled: a leader that is dead is replaced soon enough that nobody notices.
func agentLeaderKilled(ctx context.Context, r *run) error {
	p, all, err := r.pairWithGuests(ctx)
	if err != nil {
		return err
	}
	since := time.Now()
	r.supervisor.hold(p.leading.Process, true)
	r.harm("kill -9 %s, which leads and stays down", p.leading.Spec.Name)
	if err := p.leading.Kill(); err != nil {
		return err
	}
	if err := r.takesOver(ctx, p, since); err != nil {
		return err
	}
	r.supervisor.hold(p.leading.Process, false)
	if err := r.oneSpeaks(ctx, p.member, p.standby, p.leading); err != nil {
		return fmt.Errorf("once the old leader is back: %w", err)
	}
	return r.untouched(all, since)
}

// takesOver waits until the standby speaks for the member, which must be before the
// hub lets any session move.
func (r *run) takesOver(ctx context.Context, p pair, since time.Time) error {
	limit := r.scaled(unreachable+restartAfter) + allowance
	err := poll(ctx, limit, func(ctx context.Context) error {
		of, err := r.speaks(ctx, p.member, p.standby)
		if err == nil && !of.connected {
			err = fmt.Errorf("%s is not connected to the hub", p.standby.Spec.Name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("nobody takes the place of %s: %w", p.leading.Spec.Name, err)
	}
	r.harm("%s has taken over, %.1fs after the harm", p.standby.Spec.Name, time.Since(since).Seconds())
	return nil
}

// agentLeaderKilledInOutage: with its API server away nobody can take the place of a
// leader that is dead, so that its member is lost until the API server is back.
func agentLeaderKilledInOutage(ctx context.Context, r *run) error {
	p, all, err := r.pairWithGuests(ctx)
	if err != nil {
		return err
	}
	if err := r.killAPI(p.member); err != nil {
		return err
	}
	if err := r.pause(ctx, time.Minute); err != nil {
		return err
	}
	since := time.Now()
	r.harm("kill -9 %s, which leads; it starts again at once", p.leading.Spec.Name)
	if err := p.leading.Kill(); err != nil {
		return err
	}
	if err := r.fencedOff(ctx, all.of(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := r.moves(ctx, all, since); err != nil {
		return err
	}
	if err := r.ranOn(all.of(v1alpha1.FailoverHold), since); err != nil {
		return err
	}
	if err := r.reviveAPI(ctx, p.member); err != nil {
		return err
	}
	if err := r.healed(ctx, all); err != nil {
		return err
	}
	leading := p.member.Leading(ctx)
	other := p.standby
	if leading == p.standby {
		other = p.leading
	}
	return r.oneSpeaks(ctx, p.member, leading, other)
}

// agentLeaderFrozen: a leader that stood still while another took over finds out
// before it writes or speaks, and ends.
func agentLeaderFrozen(ctx context.Context, r *run) error {
	p, all, err := r.pairWithGuests(ctx)
	if err != nil {
		return err
	}
	since, pid := time.Now(), p.leading.PID()
	r.harm("SIGSTOP %s, which leads", p.leading.Spec.Name)
	if err := p.leading.Pause(); err != nil {
		return err
	}
	if err := r.takesOver(ctx, p, since); err != nil {
		return err
	}
	if err := r.moment(ctx, time.Minute); err != nil {
		return err
	}
	mark, err := harness.AuditMark(p.member.ControlPlane.AuditLog())
	if err != nil {
		return err
	}
	r.supervisor.hold(p.leading.Process, true)
	r.harm("SIGCONT %s, which led", p.leading.Spec.Name)
	if err := p.leading.Resume(); err != nil {
		return err
	}
	if err := r.endsByItself(ctx, p.leading, pid); err != nil {
		return err
	}
	if err := wroteNothing(p, mark); err != nil {
		return err
	}
	r.supervisor.hold(p.leading.Process, false)
	if err := r.oneSpeaks(ctx, p.member, p.standby, p.leading); err != nil {
		return err
	}
	return r.untouched(all, since)
}

// agentLeaderCutFromAPI: a leader that alone is cut off from the API server can't learn
// there that another has taken over. The hub tells it.
func agentLeaderCutFromAPI(ctx context.Context, r *run) error {
	p, all, err := r.pairWithGuests(ctx)
	if err != nil {
		return err
	}
	since, pid := time.Now(), p.leading.PID()
	r.supervisor.hold(p.leading.Process, true)
	r.harm("%s, which leads, is cut off from its API server, and not from the hub", p.leading.Spec.Name)
	r.apiWires[p.leading.Spec.Name].set(weather{CutToHub: true, CutToAgent: true})
	if err := r.takesOver(ctx, p, since); err != nil {
		return err
	}
	if err := r.endsByItself(ctx, p.leading, pid); err != nil {
		return err
	}
	r.harm("healed")
	r.apiWires[p.leading.Spec.Name].set(weather{})
	r.supervisor.hold(p.leading.Process, false)
	if err := r.oneSpeaks(ctx, p.member, p.standby, p.leading); err != nil {
		return err
	}
	return r.untouched(all, since)
}

// endsByItself waits until a replica has ended that leads no more.
func (r *run) endsByItself(ctx context.Context, a *harness.Agent, pid int) error {
	err := poll(ctx, r.scaled(time.Minute)+2*allowance, func(context.Context) error {
		if a.Running() && a.PID() == pid {
			return errors.New("it still runs")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s leads no more: %w", a.Spec.Name, err)
	}
	r.harm("%s has ended", a.Spec.Name)
	return nil
}

// wroteNothing: by the audit log from a mark on, the old leader has changed nothing but
// tried its lock and said that it lost it.
func wroteNothing(p pair, mark int64) error {
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
		err = errors.Join(err, fmt.Errorf("promise 1: %s led no more, and wrote %+v", p.leading.Spec.Name, w))
	}
	return err
}
