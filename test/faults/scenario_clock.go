package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/wallclock"
)

// clocks sets the hub's wall clocks.
func clocks() []scenario {
	return []scenario{{name: "hub-clock-ahead", ends: true, do: hubClockAhead}}
}

// pauses stops machines for a while.
func pauses() []scenario {
	return []scenario{{name: "machines-paused", do: machinesPaused}}
}

// hubClockAhead steps the leader's wall clock by an hour, and then has a replica whose
// clock is an hour ahead take over. It ends no session that has less left than that,
// and charges none for time that has not passed.
func hubClockAhead(ctx context.Context, r *run) error {
	const step = time.Hour
	limited, err := r.limited(ctx, 30*time.Minute)
	if err != nil {
		return err
	}
	r.finally(func() {
		for _, replica := range r.fleet.Hub.Replicas {
			_ = wallclock.Shift(replica.PID(), 0) // one that has ended has the machine's
		}
	})
	leader, err := r.leader(ctx)
	if err != nil {
		return err
	}
	ahead := func(replica *harness.Replica) error {
		r.harm("the wall clock of %s steps ahead by %s", replica.Spec.Name, step)
		return wallclock.Shift(replica.PID(), step)
	}
	if err := ahead(leader); err != nil {
		return err
	}
	if err := r.pause(ctx, time.Minute); err != nil {
		return err
	}
	for _, replica := range r.fleet.Hub.Replicas {
		if replica != leader {
			if err := ahead(replica); err != nil {
				return err
			}
		}
	}
	r.harm("kill -9 %s (leader)", leader.Spec.Name)
	if err := leader.Kill(); err != nil {
		return err
	}
	if _, err := r.leader(ctx); err != nil {
		return err
	}
	if err := r.pause(ctx, time.Minute); err != nil {
		return err
	}
	return r.untimed(ctx, limited)
}

// limited has sessions with a time limit run, one in each member.
func (r *run) limited(ctx context.Context, limit time.Duration) (map[string]types.UID, error) {
	all := map[string]types.UID{}
	for _, m := range r.fleet.Members {
		s := r.work.newSession(0, 3)
		s.Name = r.scenario.name + "-limited-" + m.Name
		s.Spec.Timeout = v1alpha1.Duration(limit.String())
		s.Spec.Placement.RequiredRegions = []string{m.Spec.Region}
		if err := r.watch.hub.Create(ctx, s); err != nil {
			return nil, fmt.Errorf("creating %s: %w", s.Name, err)
		}
		if err := r.await(ctx, s.Name+" runs", runs(s.UID)); err != nil {
			return nil, err
		}
		all[s.Name] = s.UID
	}
	return all, nil
}

// untimed: sessions run where they first did, and no time is charged for earlier runs.
func (r *run) untimed(ctx context.Context, all map[string]types.UID) error {
	var errs []error
	for name, uid := range all {
		s := &v1alpha1.VDISession{}
		if err := r.watch.hub.Get(ctx, key(namespace+"/"+name), s); err != nil {
			return err
		}
		if s.UID != uid || s.Status.Phase != v1alpha1.PhaseRunning || s.Status.Epoch != 1 || s.Status.TimeUsed != "" {
			errs = append(errs, fmt.Errorf("%s is %s (%s) under epoch %d, with %q of its time used by earlier runs",
				name, s.Status.Phase, s.Status.Message, s.Status.Epoch, s.Status.TimeUsed))
		}
	}
	return errors.Join(errs...)
}

// machinesPaused: a hypervisor's pause stops the boot clock of what it pauses. Only the
// wall clock says afterwards how much has passed, and that the lease is over: the
// guards have to end Fence desktops at once. Other than after a pause, nothing of
// that time has passed for the hub.
func machinesPaused(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	r.weather(m.Name, cutOff, "cut off both ways")
	r.harm("the wall clocks of all processes of %s step ahead by %s, as after a pause of its machines", m.Name, fenceLease)
	if err := setClocks(m, fenceLease); err != nil {
		return err
	}
	r.finally(func() { _ = setClocks(m, 0) })
	fenced := all.of(v1alpha1.FailoverFence)
	err = poll(ctx, stoppedWithin, func(context.Context) error {
		for _, g := range fenced {
			if l, err := r.runningAt(g, since); err != nil || l.end.IsZero() {
				return errors.Join(err, fmt.Errorf("the desktop of %s guest %s still runs", g.mode, g.name))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the wall clock says that the lease of %s is over: %w", m.Name, err)
	}
	r.harm("%d %s guests have ended %.1fs after that; by the boot clock the lease has %s", len(fenced), fenced[0].mode, time.Since(since).Seconds(), r.scaled(fenceLease))
	if err := r.ranOn(all.of(v1alpha1.FailoverHold), since); err != nil {
		return err
	}
	if err := r.moves(ctx, all, since); err != nil {
		return err
	}
	r.harm("its clocks are right again")
	if err := setClocks(m, 0); err != nil {
		return err
	}
	r.weather(m.Name, weather{}, "healed")
	return r.healed(ctx, all)
}

// setClocks sets the wall clocks of a member's agents and guards. One that ends
// meanwhile needs none.
func setClocks(m *harness.Member, ahead time.Duration) error {
	pids, err := children(m.ControlPlane.Kubelet.PID())
	if err != nil {
		return fmt.Errorf("finding the guards of %s: %w", m.Name, err)
	}
	for _, a := range m.Agents {
		pids = append(pids, a.PID())
	}
	for _, pid := range pids {
		if err := wallclock.Shift(pid, ahead); err != nil && lives(pid) {
			return fmt.Errorf("setting the clocks of %s: %w", m.Name, err)
		}
	}
	return nil
}

// lives is whether there is such a process, and it has not ended.
func lives(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && exe != ""
}

// children are the processes that a process has started.
func children(parent int) ([]int, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		} else if err != nil {
			return nil, err
		}
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return nil, err
			}
			out = append(out, pid)
		}
	}
	return out, nil
}
