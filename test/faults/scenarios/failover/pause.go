package failover

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

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/probe"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/wallclock"
)

// pauses returns the scenarios that pause machines.
func pauses() []runner.Scenario {
	return []runner.Scenario{{Name: "machines-paused", Do: machinesPaused}}
}

// machinesPaused emulates a hypervisor's pause, which stops the boot clock of what it pauses. Only
// the wall clock shows afterwards how much time has passed, and that the lease is over: the guards
// must end Fence desktops at once. Unlike after a real pause, none of that time has passed for the
// hub.
func machinesPaused(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
	r.Record("the wall clocks of all processes of %s step ahead by %s, as after a pause of its machines", m.Name, stage.FenceLease)
	if err := setClocks(m, stage.FenceLease); err != nil {
		return err
	}
	r.Cleanup(func() { _ = setClocks(m, 0) })
	fenced := all.OfMode(v1alpha1.FailoverFence)
	err = stage.Poll(ctx, stage.StoppedWithin, func(context.Context) error {
		for _, p := range fenced {
			if l, err := probe.RunningAt(r, p, since); err != nil || l.End.IsZero() {
				return errors.Join(err, fmt.Errorf("the desktop of %s probe %s still runs", p.Mode, p.Name))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("by the wall clock the lease of %s is over: %w", m.Name, err)
	}
	r.Record("%d %s probes have ended %.1fs after that; by the boot clock the lease has %s", len(fenced), fenced[0].Mode, time.Since(since).Seconds(), r.Scaled(stage.FenceLease))
	if err := probe.CheckKeptRunning(r, all.OfMode(v1alpha1.FailoverHold), since); err != nil {
		return err
	}
	if err := probe.AwaitFailover(ctx, r, all, since); err != nil {
		return err
	}
	r.Record("its clocks are right again")
	if err := setClocks(m, 0); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	return probe.AwaitOldStopped(ctx, r, all)
}

// setClocks sets the wall clocks of a member's agents and guards. It ignores processes that end
// meanwhile.
func setClocks(m *harness.Member, ahead time.Duration) error {
	pids, err := children(m.ControlPlane.Kubelet.PID())
	if err != nil {
		return fmt.Errorf("finding the guards of %s: %w", m.Name, err)
	}
	for _, a := range m.Agents {
		pids = append(pids, a.PID())
	}
	for _, pid := range pids {
		if err := wallclock.Shift(pid, ahead); err != nil && processExists(pid) {
			return fmt.Errorf("setting the clocks of %s: %w", m.Name, err)
		}
	}
	return nil
}

// processExists reports whether a process exists and has not ended.
func processExists(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && exe != ""
}

// children returns the processes that a process has started.
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
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			out = append(out, pid)
		}
	}
	return out, nil
}
