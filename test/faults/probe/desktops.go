package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
)

// desktopRuns returns the runs of a probe's desktop in its member, in their order.
func desktopRuns(r *runner.Run, p Probe) []watch.DesktopRun {
	var there []watch.DesktopRun
	for _, l := range r.Kubelets.Runs(p.UID) {
		if l.Member == p.At.Name {
			there = append(there, l)
		}
	}
	return there
}

// RunningAt returns the run of a probe's desktop in its member at a time.
func RunningAt(r *runner.Run, p Probe, at time.Time) (watch.DesktopRun, error) {
	for _, l := range desktopRuns(r, p) {
		if !l.Start.After(at) && (l.End.IsZero() || l.End.After(at)) {
			return l, nil
		}
	}
	return watch.DesktopRun{}, fmt.Errorf("by its kubelet, the desktop of %s probe %s did not run in %s at %s: %v", p.Mode, p.Name, p.At.Name, at.Format(watch.TimeFormat), desktopRuns(r, p))
}

// CheckKeptRunning checks that the desktops of probes have run since a time, and still do.
func CheckKeptRunning(r *runner.Run, all Probes, since time.Time) error {
	var errs []error
	for _, p := range all {
		l, err := RunningAt(r, p, since)
		if err == nil && !l.End.IsZero() {
			err = fmt.Errorf("the desktop of %s probe %s in %s ended at %s, %.1fs after the fault", p.Mode, p.Name, p.At.Name, l.End.Format(watch.TimeFormat), l.End.Sub(since).Seconds())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// AwaitLeaseStop waits until the desktops of probes have ended by themselves in a member that is
// away. It checks that this was not before their lease was over, whatever happened to the agent,
// and long enough before R.
func AwaitLeaseStop(ctx context.Context, r *runner.Run, all Probes, since time.Time) error {
	first, last := time.Duration(0), time.Duration(0)
	limit := time.Until(since.Add(r.Scaled(stage.FenceLease+stage.StopSlack))) + stage.Allowance
	err := stage.Poll(ctx, limit, func(context.Context) error {
		first, last = 0, 0
		for _, p := range all {
			l, err := RunningAt(r, p, since)
			if err != nil {
				return err
			}
			if l.End.IsZero() {
				return fmt.Errorf("the desktop of %s probe %s still runs in %s", p.Mode, p.Name, p.At.Name)
			}
			after := l.End.Sub(since)
			if first == 0 || after < first {
				first = after
			}
			last = max(last, after)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the lease of %s is over: %w", all[0].At.Name, err)
	}
	r.Record("%d %s probes ended in %s after %.1fs to %.1fs (L is %s, R is %s)", len(all), all[0].Mode, all[0].At.Name, first.Seconds(), last.Seconds(), r.Scaled(stage.FenceLease), r.Scaled(stage.PlaceElsewhereAfter))
	if least := r.Scaled(stage.FenceLease-stage.RenewalInterval-stage.SkewBound) - stage.RenewalDelay; first < least {
		return fmt.Errorf("a %s probe ended %s after its member was cut off, before its lease was over: %s at least", all[0].Mode, first, least)
	}
	return nil
}

// AwaitOldStopped waits until all members are reachable again, and then until none of the probes
// that were rescheduled runs in its old member.
func AwaitOldStopped(ctx context.Context, r *runner.Run, all Probes) error {
	for _, m := range r.Fleet.Members {
		if err := runner.AwaitConnected(ctx, r, m); err != nil {
			return err
		}
	}
	since := time.Now()
	var old Probes
	r.Watch.With(func(c *checker.Checker, _ time.Time) {
		for _, p := range all {
			if k := c.Session(p.UID); k != nil && k.Cluster != p.At.Name {
				old = append(old, p)
			}
		}
	})
	err := stage.Poll(ctx, stage.StoppedWithin+stage.Allowance, func(context.Context) error {
		for _, p := range old {
			for _, l := range desktopRuns(r, p) {
				if l.End.IsZero() {
					return fmt.Errorf("probe %s still runs in %s: %v", p.Name, p.At.Name, l)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("what was superseded is not stopped: %w", err)
	}
	r.Record("all members are connected; %.1fs later none of %d probes that were rescheduled runs where it was", time.Since(since).Seconds(), len(old))
	return nil
}

// CheckNotRestarted checks that no desktop of probes that were rescheduled was started in the old
// member after its power returned.
func CheckNotRestarted(r *runner.Run, all Probes, since time.Time) error {
	var errs []error
	for _, p := range all {
		for _, l := range desktopRuns(r, p) {
			if !l.Start.Before(since) {
				errs = append(errs, fmt.Errorf("G1: %s probe %s was rescheduled, and its old desktop was started by its kubelet: %s", p.Mode, p.Name, l))
			}
		}
	}
	return errors.Join(errs...)
}

// AwaitRestart waits until probes that were not rescheduled run again in their member, whose power
// has returned.
func AwaitRestart(ctx context.Context, r *runner.Run, all Probes, since time.Time) error {
	reachable := time.Now()
	err := stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(context.Context) error {
		for _, p := range all {
			runs := desktopRuns(r, p)
			if len(runs) == 0 {
				return fmt.Errorf("there is no log of %s probe %s", p.Mode, p.Name)
			}
			if last := runs[len(runs)-1]; last.Start.Before(since) || !last.End.IsZero() {
				return fmt.Errorf("%s probe %s last ran in %s", p.Mode, p.Name, last)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("a member that only lost its power does not start what it holds: %w", err)
	}
	r.Record("%d %s probes run again in %s, %.1fs after it was reachable", len(all), all[0].Mode, all[0].At.Name, time.Since(reachable).Seconds())
	return nil
}
