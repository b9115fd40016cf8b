package failover

import (
	"context"
	"errors"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/probe"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
)

// lostMembers returns the scenarios that lose a member, or what can stop desktops there.
func lostMembers() []runner.Scenario {
	return []runner.Scenario{
		{Name: "member-dead", Short: true, Do: memberDead},
		{Name: "agent-dead", Do: agentDead},
		{Name: "api-dead", Do: apiDead},
		{Name: "api-dead-and-cut-off", Do: apiDeadCutOff},
		{Name: "agent-crash-loop", Do: agentCrashLoop},
	}
}

// memberDead cuts a member's power: all its processes end at once.
func memberDead(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := runner.PowerOff(r, m); err != nil {
		return err
	}
	if err := probe.AwaitFailover(ctx, r, all, since); err != nil {
		return err
	}
	since = time.Now()
	if err := runner.PowerOn(ctx, r, m); err != nil {
		return err
	}
	if err := probe.AwaitOldStopped(ctx, r, all); err != nil {
		return err
	}
	return probe.AwaitRestart(ctx, r, all.OfMode(v1alpha1.FailoverHold), since)
}

// agentDead kills the agents of a member that runs on: only guards stop anything there.
func agentDead(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := runner.KillAndHoldAgents(r, m); err != nil {
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
	r.Record("%s may start again", m.Agent.Spec.Name)
	runner.HoldAgents(r, m, false)
	return probe.AwaitOldStopped(ctx, r, all)
}

// apiDead kills the API server of an agent that still reaches the hub, for longer than R. As long
// as the agent renews, nothing is lost.
func apiDead(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := runner.KillAPIServer(r, m); err != nil {
		return err
	}
	if err := r.Pause(ctx, stage.PlaceElsewhereAfter+stage.StopSlack); err != nil {
		return err
	}
	reason, err := runner.ReadyReason(ctx, r, m.Name)
	if err != nil {
		return err
	}
	r.Record("the hub shows %s as %s", m.Name, reason)
	if err := errors.Join(probe.CheckUnmoved(r, all.OfMode(v1alpha1.FailoverHold)), probe.CheckKeptRunning(r, all.OfMode(v1alpha1.FailoverHold), since)); err != nil {
		return err
	}
	if reason == v1alpha1.ReasonConnected {
		if err := errors.Join(probe.CheckUnmoved(r, all), probe.CheckKeptRunning(r, all, since)); err != nil {
			return err
		}
	}
	return runner.RestartAPIServer(ctx, r, m)
}

// apiDeadCutOff leaves an agent that reaches neither hub nor API server: only guards stop what must
// not run.
func apiDeadCutOff(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := runner.KillAPIServer(r, m); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.CutOff, "cut off both ways besides")
	if err := probe.AwaitLeaseStop(ctx, r, all.OfMode(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := probe.AwaitFailover(ctx, r, all, since); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	if err := runner.RestartAPIServer(ctx, r, m); err != nil {
		return err
	}
	return probe.AwaitOldStopped(ctx, r, all)
}

// An agent in a crash loop runs for crashEvery: long enough to take its predecessor's lock, whose
// least duration, 4 s, no factor scales.
const (
	crashEvery      = 15 * time.Second
	leastCrashEvery = 7 * time.Second
)

// agentCrashLoop repeatedly restarts an agent that is cut off. This neither extends its lease nor
// ends it.
func agentCrashLoop(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
	every := max(r.Scaled(crashEvery), leastCrashEvery)
	r.Record("%s is killed every %s", m.Agent.Spec.Name, every)
	crashing, stop := context.WithCancel(ctx)
	crashed := make(chan error, 1)
	go func() {
		for {
			if err := stage.Sleep(crashing, every); err != nil {
				crashed <- nil
				return
			}
			if err := runner.KillAgents(m); err != nil {
				crashed <- err
				return
			}
		}
	}()
	err = probe.AwaitLeaseStop(ctx, r, all.OfMode(v1alpha1.FailoverFence), since)
	if err == nil {
		err = probe.AwaitFailover(ctx, r, all, since)
	}
	stop()
	if err := errors.Join(err, <-crashed); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	return probe.AwaitOldStopped(ctx, r, all)
}
