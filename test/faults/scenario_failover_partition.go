package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// cutOff is a partition: nothing is told of it.
var cutOff = weather{CutToHub: true, CutToAgent: true}

// partitions cut members off, for times around L and R.
func partitions() []scenario {
	long := func(w weather, what string) func(context.Context, *run) error {
		return func(ctx context.Context, r *run) error { return partitionLong(ctx, r, w, what) }
	}
	return []scenario{
		{name: "partition-shorter-than-lease", do: partitionShort},
		{name: "partition-between", do: partitionBetween},
		{name: "partition-long", do: long(cutOff, "cut off both ways")},
		{name: "partition-long-to-hub", do: long(weather{CutToHub: true}, "nothing arrives at the hub")},
		{name: "partition-long-to-agent", do: long(weather{CutToAgent: true}, "nothing arrives at the agent")},
		{name: "heal-in-eviction", do: healInEviction},
		{name: "keep-original", do: keepOriginal},
		{name: "flapping", do: flapping},
	}
}

// partitionShort ends before the lease: Fence and Hold sessions feel nothing of it.
func partitionShort(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	r.weather(m.Name, cutOff, "cut off both ways")
	if err := sleep(ctx, max(r.scaled(unreachable), r.scaled(fenceLease-4*renewal)-lag)); err != nil {
		return err
	}
	r.weather(m.Name, weather{}, fmt.Sprintf("healed, before L = %s", r.scaled(fenceLease)))
	if err := r.healed(ctx, all); err != nil {
		return err
	}
	still := append(all.of(v1alpha1.FailoverFence), all.of(v1alpha1.FailoverHold)...)
	return errors.Join(r.stayed(still), r.ranOn(still, since))
}

// partitionBetween ends between L and R: Fence sessions are stopped in their member,
// and run again there.
func partitionBetween(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	fenced := all.of(v1alpha1.FailoverFence)
	r.weather(m.Name, cutOff, "cut off both ways")
	if err := r.fencedOff(ctx, fenced, since); err != nil {
		return err
	}
	if left := r.scaled(regain-4*renewal) - time.Since(since); left > 0 {
		if err := sleep(ctx, min(left, r.scaled(30*time.Second))); err != nil {
			return err
		}
	}
	r.weather(m.Name, weather{}, fmt.Sprintf("healed, before R = %s", r.scaled(regain)))
	if err := r.healed(ctx, all); err != nil {
		return err
	}
	if err := r.settleIn(ctx, fenced); err != nil {
		return fmt.Errorf("after its lease was over: %w", err)
	}
	r.harm("%d Fence guests run in %s again", len(fenced), m.Name)
	return errors.Join(r.stayed(all.of(v1alpha1.FailoverHold)), r.ranOn(all.of(v1alpha1.FailoverHold), since))
}

// partitionLong lasts until all is elsewhere that may be.
func partitionLong(ctx context.Context, r *run, w weather, what string) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	r.weather(m.Name, w, what)
	if err := r.fencedOff(ctx, all.of(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := r.moves(ctx, all, since); err != nil {
		return err
	}
	r.weather(m.Name, weather{}, "healed")
	if err := r.healed(ctx, all); err != nil {
		return err
	}
	return r.ranOn(all.of(v1alpha1.FailoverHold), since)
}

// manyRestart are so many that their eviction takes a while.
var manyRestart = func() []wish {
	wishes := oneHomed
	for range 18 {
		wishes = append(wishes[:len(wishes):len(wishes)], wish{mode: v1alpha1.FailoverRestart})
	}
	return wishes
}()

// healInEviction heals when the first session was rescheduled, and the others are
// about to be: of Restart first, and of Fence in a second partition.
func healInEviction(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, manyRestart)
	if err != nil {
		return err
	}
	for _, first := range []struct {
		mode v1alpha1.FailoverMode
		due  time.Duration
	}{{v1alpha1.FailoverRestart, unreachable + restartAfter}, {v1alpha1.FailoverFence, regain}} {
		r.weather(m.Name, cutOff, "cut off both ways")
		to, err := r.firstMoves(ctx, all.of(first.mode), first.due)
		if err != nil {
			return err
		}
		r.weather(m.Name, weather{}, fmt.Sprintf("healed, as the first %s guest was placed in %s", first.mode, to))
		if err := r.healed(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// keepOriginal: a session that asked for it goes back to its first copy.
func keepOriginal(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, []wish{
		{mode: v1alpha1.FailoverRestart, healing: v1alpha1.HealKeepOriginal},
		{mode: v1alpha1.FailoverRestart, healing: v1alpha1.HealKeepOriginal},
		{mode: v1alpha1.FailoverRestart},
	})
	if err != nil {
		return err
	}
	since := time.Now()
	r.weather(m.Name, cutOff, "cut off both ways")
	if err := r.elsewhere(ctx, all, since, unreachable+restartAfter); err != nil {
		return err
	}
	r.weather(m.Name, weather{}, "healed")
	original, replaced := all[:2], all[2:]
	if err := r.settleIn(ctx, original); err != nil {
		return fmt.Errorf("going back to the original: %w", err)
	}
	r.harm("%d guests are back with their first copies, %.1fs after the harm", len(original), time.Since(since).Seconds())
	if err := r.ranOn(original, since); err != nil {
		return err
	}
	return r.healed(ctx, replaced)
}

// flapping: a member that comes and goes, never away for as long as a Restart
// session waits. It loses nothing, and gets nothing new.
func flapping(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	for range rounds {
		for _, phase := range []struct {
			weather weather
			what    string
			lasts   time.Duration
		}{
			{cutOff, "cut off both ways", 50 * time.Second},
			{weather{}, "healed", 60 * time.Second},
		} {
			r.weather(m.Name, phase.weather, phase.what)
			if err := r.pause(ctx, phase.lasts); err != nil {
				return err
			}
		}
	}
	if err := r.healthIs(ctx, m.Name, v1alpha1.ReasonQuarantined, true); err != nil {
		return err
	}
	r.harm("%s is quarantined", m.Name)
	return errors.Join(r.stayed(all), r.ranOn(all, since))
}
