package scenarios

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/wallclock"
)

// clocks returns the scenarios that set the hub's wall clocks.
func clocks() []runner.Scenario {
	return []runner.Scenario{{Name: "hub-clock-ahead", EndsProcesses: true, Do: hubClockAhead}}
}

// hubClockAhead steps the leader's wall clock by an hour, and then has a replica whose clock is an
// hour ahead take over. The hub must not end sessions that have less than an hour left, nor charge
// any for time that has not passed.
func hubClockAhead(ctx context.Context, r *runner.Run) error {
	const step = time.Hour
	limited, err := createLimited(ctx, r, 30*time.Minute)
	if err != nil {
		return err
	}
	r.Cleanup(func() {
		for _, replica := range r.Fleet.Hub.Replicas {
			_ = wallclock.Shift(replica.PID(), 0) // a process that has ended has none
		}
	})
	leader, err := r.Leader(ctx)
	if err != nil {
		return err
	}
	ahead := func(replica *harness.Replica) error {
		r.Record("the wall clock of %s steps ahead by %s", replica.Spec.Name, step)
		return wallclock.Shift(replica.PID(), step)
	}
	if err := ahead(leader); err != nil {
		return err
	}
	if err := r.Pause(ctx, time.Minute); err != nil {
		return err
	}
	for _, replica := range r.Fleet.Hub.Replicas {
		if replica != leader {
			if err := ahead(replica); err != nil {
				return err
			}
		}
	}
	r.Record("kill -9 %s (leader)", leader.Spec.Name)
	if err := leader.Kill(); err != nil {
		return err
	}
	if _, err := r.Leader(ctx); err != nil {
		return err
	}
	if err := r.Pause(ctx, time.Minute); err != nil {
		return err
	}
	return checkNothingCharged(ctx, r, limited)
}

// createLimited makes sessions with a time limit run, one in each member.
func createLimited(ctx context.Context, r *runner.Run, limit time.Duration) (map[string]types.UID, error) {
	all := map[string]types.UID{}
	for _, m := range r.Fleet.Members {
		s := workload.NewSession(r.Scenario.Name+"-limited-"+m.Name, 3)
		s.Spec.Timeout = v1alpha1.Duration(limit.String())
		s.Spec.Placement.RequiredRegions = []string{m.Spec.Region}
		if err := r.Watch.Hub.Create(ctx, s); err != nil {
			return nil, fmt.Errorf("creating %s: %w", s.Name, err)
		}
		if err := r.Await(ctx, s.Name+" runs", runner.Running(s.UID)); err != nil {
			return nil, err
		}
		all[s.Name] = s.UID
	}
	return all, nil
}

// checkNothingCharged checks that sessions run where they first did, and that no time is charged
// for earlier runs.
func checkNothingCharged(ctx context.Context, r *runner.Run, all map[string]types.UID) error {
	var errs []error
	for name, uid := range all {
		s := &v1alpha1.VDISession{}
		if err := r.Watch.Hub.Get(ctx, watch.Key(workload.Namespace+"/"+name), s); err != nil {
			return err
		}
		if s.UID != uid || s.Status.Phase != v1alpha1.PhaseRunning || s.Status.Epoch != 1 || s.Status.TimeUsed != "" {
			errs = append(errs, fmt.Errorf("%s is %s (%s) under epoch %d, with %q of its time used by earlier runs",
				name, s.Status.Phase, s.Status.Message, s.Status.Epoch, s.Status.TimeUsed))
		}
	}
	return errors.Join(errs...)
}
