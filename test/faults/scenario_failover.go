package faults

import (
	"context"
	"errors"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// failoverPace is by how much faster time runs in the fleets of these scenarios than
// in the others: an R of production is five minutes.
const failoverPace = 0.75

// The waits of docs/design.md, section 7, in time of production: what a promise is measured
// against must not be the product's own word.
const (
	unreachable  = 40 * time.Second
	restartAfter = 60 * time.Second
	fenceLease   = 180 * time.Second // L
	regain       = 300 * time.Second // R
	stopSlack    = 70 * time.Second  // S
	renewal      = 6 * time.Second   // 5 s and their jitter
	skewBound    = 10 * time.Second
)

// lag is how old a lease may be on a busy machine whose agents come late to renew it;
// no factor scales it.
const lag = 10 * time.Second

// patience that the hub must have, counted from a harm: a renewal may have been
// granted for the last time just before.
func (s *stage) patience() patience {
	return patience{restart: s.scaled(unreachable + restartAfter - renewal), fence: s.scaled(regain - renewal)}
}

// failovers lose members, in every one under the eyes of the kubelets' logs.
func failovers() []scenario {
	var all []scenario
	for _, group := range [][]scenario{lostMembers(), partitions(), lostHubs(), targets(), words(), replicas(), pauses()} {
		all = append(all, group...)
	}
	for i := range all {
		all[i].name = "failover-" + all[i].name
		all[i].kind.kubelets = true
		all[i].size = 12
		all[i].slack += watchBackoff
	}
	return all
}

// lostMembers lose a member, or what is needed to stop anything there.
func lostMembers() []scenario {
	return []scenario{
		{name: "member-dead", short: true, do: memberDead},
		{name: "agent-dead", do: agentDead},
		{name: "api-dead", do: apiDead},
		{name: "api-dead-and-cut-off", do: apiDeadCutOff},
		{name: "agent-crash-loop", do: agentCrashLoop},
	}
}

// moves waits until what may move of a member's guests runs elsewhere, and checks
// that the others stay and say why.
func (r *run) moves(ctx context.Context, all guests, since time.Time) error {
	if err := r.elsewhere(ctx, all.of(v1alpha1.FailoverRestart), since, unreachable+restartAfter); err != nil {
		return err
	}
	if err := r.elsewhere(ctx, all.of(v1alpha1.FailoverFence), since, regain); err != nil {
		return err
	}
	hold := all.of(v1alpha1.FailoverHold)
	if err := r.pending(ctx, hold, all[0].at.Name); err != nil {
		return err
	}
	return r.stayed(hold)
}

// memberDead: everything of a member ends at once.
func memberDead(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := r.powerOff(m); err != nil {
		return err
	}
	if err := r.moves(ctx, all, since); err != nil {
		return err
	}
	since = time.Now()
	if err := r.powerOn(ctx, m); err != nil {
		return err
	}
	if err := r.healed(ctx, all); err != nil {
		return err
	}
	return r.runAgain(ctx, all.of(v1alpha1.FailoverHold), since)
}

// agentDead: nobody stops anything in a member that lives, but the guards.
func agentDead(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := r.killAgent(m); err != nil {
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
	r.harm("%s may start again", m.Agent.Spec.Name)
	r.holdAgents(m, false)
	return r.healed(ctx, all)
}

// apiDead: an agent that can reach the hub and not its own API server, for longer
// than R. As long as it renews, nothing is lost.
func apiDead(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := r.killAPI(m); err != nil {
		return err
	}
	if err := r.pause(ctx, regain+stopSlack); err != nil {
		return err
	}
	reason, err := r.health(ctx, m.Name)
	if err != nil {
		return err
	}
	r.harm("the hub says of %s: %s", m.Name, reason)
	if err := errors.Join(r.stayed(all.of(v1alpha1.FailoverHold)), r.ranOn(all.of(v1alpha1.FailoverHold), since)); err != nil {
		return err
	}
	if reason == v1alpha1.ReasonConnected {
		if err := errors.Join(r.stayed(all), r.ranOn(all, since)); err != nil {
			return err
		}
	}
	return r.reviveAPI(ctx, m)
}

// apiDeadCutOff: an agent that can reach neither: only guards stop what must not run.
func apiDeadCutOff(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := r.killAPI(m); err != nil {
		return err
	}
	r.weather(m.Name, cutOff, "cut off both ways besides")
	if err := r.fencedOff(ctx, all.of(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := r.moves(ctx, all, since); err != nil {
		return err
	}
	r.weather(m.Name, weather{}, "healed")
	if err := r.reviveAPI(ctx, m); err != nil {
		return err
	}
	return r.healed(ctx, all)
}

// killAPI ends a member's API server for as long as the scenario wants.
func (r *run) killAPI(m *harness.Member) error {
	r.away(m.Name)
	r.harm("kill -9 %s, which stays down; the agent lives", m.ControlPlane.APIServer.Spec.Name)
	return m.ControlPlane.APIServer.Kill()
}

func (r *run) reviveAPI(ctx context.Context, m *harness.Member) error {
	r.harm("%s starts again", m.ControlPlane.APIServer.Spec.Name)
	if err := revive(ctx, m.ControlPlane); err != nil {
		return err
	}
	return r.watch.watchAnew(m)
}

// crashEvery is how long an agent lives that crashes all the time: long enough to take
// the lock of its predecessor, whose least duration, 4 s, no factor scales.
const (
	crashEvery      = 15 * time.Second
	leastCrashEvery = 7 * time.Second
)

// agentCrashLoop: an agent that is cut off starts again and again, which neither
// lengthens its lease nor ends it.
func agentCrashLoop(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	r.weather(m.Name, cutOff, "cut off both ways")
	every := max(r.scaled(crashEvery), leastCrashEvery)
	r.harm("%s is killed every %s", m.Agent.Spec.Name, every)
	crashing, stop := context.WithCancel(ctx)
	crashed := make(chan error, 1)
	go func() {
		for {
			if err := sleep(crashing, every); err != nil {
				crashed <- nil
				return
			}
			if err := killAgents(m); err != nil {
				crashed <- err
				return
			}
		}
	}()
	err = r.fencedOff(ctx, all.of(v1alpha1.FailoverFence), since)
	if err == nil {
		err = r.moves(ctx, all, since)
	}
	stop()
	if err := errors.Join(err, <-crashed); err != nil {
		return err
	}
	r.weather(m.Name, weather{}, "healed")
	return r.healed(ctx, all)
}
