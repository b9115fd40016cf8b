package faults

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stoppedWithin is how soon what is left of an older epoch is stopped once its
// member is reachable again; no factor scales it.
const stoppedWithin = 10 * time.Second

// desktopsOf are the lives of a guest's desktop in the member where it was, first
// one first.
func (r *run) desktopsOf(g guest) []life {
	var there []life
	for _, l := range r.kubelets.lives(g.uid) {
		if l.member == g.at.Name {
			there = append(there, l)
		}
	}
	return there
}

// runningAt is the life of a guest's desktop in its member at a time.
func (r *run) runningAt(g guest, at time.Time) (life, error) {
	for _, l := range r.desktopsOf(g) {
		if !l.start.After(at) && (l.end.IsZero() || l.end.After(at)) {
			return l, nil
		}
	}
	return life{}, fmt.Errorf("by its kubelet, the desktop of %s guest %s did not run in %s at %s: %v", g.mode, g.name, g.at.Name, at.Format(clock), r.desktopsOf(g))
}

// ranOn: the desktops of guests have run ever since a time, and do.
func (r *run) ranOn(all guests, since time.Time) error {
	var errs []error
	for _, g := range all {
		l, err := r.runningAt(g, since)
		if err == nil && !l.end.IsZero() {
			err = fmt.Errorf("the desktop of %s guest %s in %s ended at %s, %.1fs after the harm", g.mode, g.name, g.at.Name, l.end.Format(clock), l.end.Sub(since).Seconds())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// fencedOff waits until the desktops of guests have ended by themselves in a member
// that is away, and judges when: not before their lease was over, whatever became of
// the agent, and long enough before R.
func (r *run) fencedOff(ctx context.Context, all guests, since time.Time) error {
	first, last := time.Duration(0), time.Duration(0)
	limit := time.Until(since.Add(r.scaled(fenceLease+stopSlack))) + allowance
	err := poll(ctx, limit, func(context.Context) error {
		first, last = 0, 0
		for _, g := range all {
			l, err := r.runningAt(g, since)
			if err != nil {
				return err
			}
			if l.end.IsZero() {
				return fmt.Errorf("the desktop of %s guest %s still runs in %s", g.mode, g.name, g.at.Name)
			}
			after := l.end.Sub(since)
			if first == 0 || after < first {
				first = after
			}
			last = max(last, after)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the lease of %s is over: %w", all[0].at.Name, err)
	}
	r.harm("%d %s guests ended in %s after %.1fs to %.1fs (L is %s, R is %s)", len(all), all[0].mode, all[0].at.Name, first.Seconds(), last.Seconds(), r.scaled(fenceLease), r.scaled(regain))
	if least := r.scaled(fenceLease-renewal-skewBound) - lag; first < least {
		return fmt.Errorf("a %s guest ended %s after its member was cut off, before its lease was over: %s at least", all[0].mode, first, least)
	}
	return nil
}

// healed waits until the member of guests is reachable again, and then until nothing
// runs there any more of those that were rescheduled meanwhile.
func (r *run) healed(ctx context.Context, all guests) error {
	for _, m := range r.fleet.Members {
		if err := r.connected(ctx, m); err != nil {
			return err
		}
	}
	since := time.Now()
	var old guests
	r.watch.heard(func(c *checker, _ time.Time) {
		for _, g := range all {
			if k := c.sessions[g.uid]; k != nil && k.Cluster != g.at.Name {
				old = append(old, g)
			}
		}
	})
	err := poll(ctx, stoppedWithin+allowance, func(context.Context) error {
		for _, g := range old {
			for _, l := range r.desktopsOf(g) {
				if l.end.IsZero() {
					return fmt.Errorf("guest %s still runs in %s: %v", g.name, g.at.Name, l)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("what was superseded is not stopped: %w", err)
	}
	r.harm("all members are connected; %.1fs later none of %d guests that were rescheduled runs where it was", time.Since(since).Seconds(), len(old))
	return nil
}

// neverAgain: no desktop of guests that were rescheduled has started where they were
// since a time, when their member had its power back.
func (r *run) neverAgain(all guests, since time.Time) error {
	var errs []error
	for _, g := range all {
		for _, l := range r.desktopsOf(g) {
			if !l.start.Before(since) {
				errs = append(errs, fmt.Errorf("promise 1: %s guest %s was rescheduled, and its old desktop was started by its kubelet: %s", g.mode, g.name, l))
			}
		}
	}
	return errors.Join(errs...)
}

// runAgain waits until guests that stayed run again where they are, since their
// member had its power back and is reachable.
func (r *run) runAgain(ctx context.Context, all guests, since time.Time) error {
	heard := time.Now()
	err := poll(ctx, r.scaled(agreeWithin)+allowance, func(context.Context) error {
		for _, g := range all {
			lives := r.desktopsOf(g)
			if len(lives) == 0 {
				return fmt.Errorf("there is no log of %s guest %s", g.mode, g.name)
			}
			if last := lives[len(lives)-1]; last.start.Before(since) || !last.end.IsZero() {
				return fmt.Errorf("%s guest %s last ran in %s", g.mode, g.name, last)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("a member that only lost its power does not start what it holds: %w", err)
	}
	r.harm("%d %s guests run again in %s, %.1fs after it was reachable", len(all), all[0].mode, all[0].at.Name, time.Since(heard).Seconds())
	return nil
}

// clock is how times are written.
const clock = "15:04:05.000"

// life is one of a desktop, by its kubelet's log.
type life struct {
	member, pod string
	epoch       int64
	// end is zero while it runs.
	start, end time.Time
}

func (l life) String() string {
	end := "now"
	if !l.end.IsZero() {
		end = l.end.Format(clock)
	}
	return fmt.Sprintf("%s (epoch %d, Pod %s) %s to %s", l.member, l.epoch, l.pod, l.start.Format(clock), end)
}
