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
)

// partitions returns the scenarios that cut members off, for times around L and R.
func partitions() []runner.Scenario {
	long := func(w netem.Conditions, what string) func(context.Context, *runner.Run) error {
		return func(ctx context.Context, r *runner.Run) error { return partitionLong(ctx, r, w, what) }
	}
	return []runner.Scenario{
		{Name: "partition-shorter-than-lease", Do: partitionShort},
		{Name: "partition-between", Do: partitionBetween},
		{Name: "partition-long", Do: long(netem.CutOff, "cut off both ways")},
		{Name: "partition-long-to-hub", Do: long(netem.Conditions{CutToHub: true}, "nothing arrives at the hub")},
		{Name: "partition-long-to-agent", Do: long(netem.Conditions{CutToAgent: true}, "nothing arrives at the agent")},
		{Name: "reconnect-in-failover", Do: reconnectInFailover},
		{Name: "keep-original", Do: keepOriginal},
		{Name: "flapping", Do: flapping},
	}
}

// partitionShort cuts a member off for less than L: Fence and Hold sessions keep running.
func partitionShort(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
	if err := stage.Sleep(ctx, max(r.Scaled(stage.Unreachable), r.Scaled(stage.FenceLease-4*stage.RenewalInterval)-stage.RenewalDelay)); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{}, fmt.Sprintf("restored, before L = %s", r.Scaled(stage.FenceLease)))
	if err := probe.AwaitOldStopped(ctx, r, all); err != nil {
		return err
	}
	still := append(all.OfMode(v1alpha1.FailoverFence), all.OfMode(v1alpha1.FailoverHold)...)
	return errors.Join(probe.CheckUnmoved(r, still), probe.CheckKeptRunning(r, still, since))
}

// partitionBetween cuts a member off for longer than L and less than R: Fence sessions are stopped
// in their member, and run again there.
func partitionBetween(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	fenced := all.OfMode(v1alpha1.FailoverFence)
	r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
	if err := probe.AwaitLeaseStop(ctx, r, fenced, since); err != nil {
		return err
	}
	if left := r.Scaled(stage.PlaceElsewhereAfter-4*stage.RenewalInterval) - time.Since(since); left > 0 {
		if err := stage.Sleep(ctx, min(left, r.Scaled(30*time.Second))); err != nil {
			return err
		}
	}
	r.SetNetwork(m.Name, netem.Conditions{}, fmt.Sprintf("restored, before R = %s", r.Scaled(stage.PlaceElsewhereAfter)))
	if err := probe.AwaitOldStopped(ctx, r, all); err != nil {
		return err
	}
	if err := probe.AwaitRunning(ctx, r, fenced); err != nil {
		return fmt.Errorf("after its lease was over: %w", err)
	}
	r.Record("%d Fence probes run in %s again", len(fenced), m.Name)
	return errors.Join(probe.CheckUnmoved(r, all.OfMode(v1alpha1.FailoverHold)), probe.CheckKeptRunning(r, all.OfMode(v1alpha1.FailoverHold), since))
}

// partitionLong cuts a member off until every session that may run elsewhere does.
func partitionLong(ctx context.Context, r *runner.Run, w netem.Conditions, what string) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	r.SetNetwork(m.Name, w, what)
	if err := probe.AwaitLeaseStop(ctx, r, all.OfMode(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := probe.AwaitFailover(ctx, r, all, since); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	if err := probe.AwaitOldStopped(ctx, r, all); err != nil {
		return err
	}
	return probe.CheckKeptRunning(r, all.OfMode(v1alpha1.FailoverHold), since)
}

// manyRestart are enough probes that rescheduling them takes a while.
var manyRestart = func() []probe.Request {
	requests := probe.Standard
	for range 18 {
		requests = append(requests[:len(requests):len(requests)], probe.Request{Mode: v1alpha1.FailoverRestart})
	}
	return requests
}()

// reconnectInFailover restores the network after the first session was rescheduled, before the others
// are: first for mode Restart, and in a second partition for Fence.
func reconnectInFailover(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, manyRestart)
	if err != nil {
		return err
	}
	for _, first := range []struct {
		mode v1alpha1.FailoverMode
		due  time.Duration
	}{{v1alpha1.FailoverRestart, stage.Unreachable + stage.RestartAfter}, {v1alpha1.FailoverFence, stage.PlaceElsewhereAfter}} {
		r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
		to, err := probe.AwaitFirstMove(ctx, r, all.OfMode(first.mode), first.due)
		if err != nil {
			return err
		}
		r.SetNetwork(m.Name, netem.Conditions{}, fmt.Sprintf("restored, as the first %s probe was placed in %s", first.mode, to))
		if err := probe.AwaitOldStopped(ctx, r, all); err != nil {
			return err
		}
	}
	return nil
}

// keepOriginal checks that a session that is to fail back returns to its first copy.
func keepOriginal(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, []probe.Request{
		{Mode: v1alpha1.FailoverRestart, Healing: v1alpha1.HealKeepOriginal},
		{Mode: v1alpha1.FailoverRestart, Healing: v1alpha1.HealKeepOriginal},
		{Mode: v1alpha1.FailoverRestart},
	})
	if err != nil {
		return err
	}
	since := time.Now()
	r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
	if err := probe.AwaitElsewhere(ctx, r, all, since, stage.Unreachable+stage.RestartAfter); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	original, replaced := all[:2], all[2:]
	if err := probe.AwaitRunning(ctx, r, original); err != nil {
		return fmt.Errorf("going back to the original: %w", err)
	}
	r.Record("%d probes are back with their first copies, %.1fs after the fault", len(original), time.Since(since).Seconds())
	if err := probe.CheckKeptRunning(r, original, since); err != nil {
		return err
	}
	return probe.AwaitOldStopped(ctx, r, replaced)
}

// flapping cuts a member off again and again, each time for less than a Restart session waits. The
// member loses no session, and gets no new ones.
func flapping(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	for range runner.Rounds {
		for _, phase := range []struct {
			network netem.Conditions
			what    string
			lasts   time.Duration
		}{
			{netem.CutOff, "cut off both ways", 50 * time.Second},
			{netem.Conditions{}, "restored", 60 * time.Second},
		} {
			r.SetNetwork(m.Name, phase.network, phase.what)
			if err := r.Pause(ctx, phase.lasts); err != nil {
				return err
			}
		}
	}
	if err := runner.AwaitReadyReason(ctx, r, m.Name, v1alpha1.ReasonQuarantined, true); err != nil {
		return err
	}
	r.Record("%s is quarantined", m.Name)
	return errors.Join(probe.CheckUnmoved(r, all), probe.CheckKeptRunning(r, all, since))
}
