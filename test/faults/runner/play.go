package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
)

// defaultSize is how many sessions a workload keeps by default.
const defaultSize = 24

// scenarioLimit bounds one scenario, in production time; scenarioSpare is added for what no factor
// scales.
const (
	scenarioLimit = 15 * time.Minute
	scenarioSpare = 3 * time.Minute
)

// Play runs one scenario and returns its result.
func Play(ctx context.Context, s *stage.Stage, sc Scenario) Result {
	r := &Run{Stage: s, Scenario: sc, Random: s.Draw(sc.Name), began: time.Now()}
	out := Result{Scenario: sc.Name, Seed: s.Seed, Factor: s.Factor}
	ctx, cancel := context.WithTimeout(ctx, s.Scaled(scenarioLimit)+scenarioSpare)
	defer cancel()
	before, observations, restarts := len(s.Watch.Violations()), s.Watch.Observations(), s.Supervisor.Restarts()
	size := sc.Size
	if size == 0 {
		size = defaultSize
	}
	r.Workload = workload.New(s.Watch.Hub, sc.Name, size, s.Draw(sc.Name+"/work"))

	err := r.Workload.Fill(ctx, size)
	if err == nil {
		r.Workload.Start(ctx)
		err = sc.Do(ctx, r)
	}
	err = errors.Join(err, r.settle(ctx, &out))
	err = errors.Join(err, awaitDecided(ctx, s), r.countRuns(&out))
	for _, undo := range r.lastCleanups {
		undo()
	}
	out.Violations = s.Watch.Violations()[before:]
	out.Injected, out.Changes = r.injected, r.Workload.Changes
	out.Observations, out.Restarts = s.Watch.Observations()-observations, s.Supervisor.Restarts()-restarts
	out.Took = time.Since(r.began)
	out.Failed = verdict(err, out)
	return out
}

func verdict(err error, out Result) string {
	switch {
	case err != nil:
		return err.Error()
	case len(out.Violations) > 0:
		return fmt.Sprintf("%d guarantees violated", len(out.Violations))
	case out.Observations == 0:
		return "the checker observed nothing"
	}
	return ""
}

// settle ends all faults, and measures how long both sides need to agree and all sessions to run.
// Then it deletes everything, under the same guarantees.
func (r *Run) settle(ctx context.Context, out *Result) error {
	r.Workload.Stop()
	if err := r.repair(ctx); err != nil {
		return err
	}
	repaired := time.Now()
	limit := r.Scaled(stage.ConvergeWithin) + stage.Allowance + r.Scenario.Slack
	if err := r.AwaitSnapshot(ctx, limit, (*watch.Snapshot).Converged); err != nil {
		return fmt.Errorf("G8: the sides do not agree: %w", err)
	}
	out.Agreed = time.Since(repaired)
	if err := r.AwaitSnapshot(ctx, r.Scaled(stage.MaxQuarantine)+limit, (*watch.Snapshot).AllRunning); err != nil {
		return fmt.Errorf("G8: not everything runs again: %w", err)
	}
	out.Running = time.Since(repaired)
	r.Watch.With(func(c *checker.Checker, _ time.Time) { c.EndOutages() })

	if err := r.Watch.Hub.DeleteAllOf(ctx, &v1alpha1.VDISession{}, client.InNamespace(workload.Namespace)); err != nil {
		return fmt.Errorf("deleting what is left: %w", err)
	}
	if err := r.AwaitSnapshot(ctx, limit, (*watch.Snapshot).Empty); err != nil {
		return fmt.Errorf("G8: what was deleted is still there: %w", err)
	}
	return nil
}

// AwaitSnapshot waits until a snapshot of the API servers is as wanted.
func (r *Run) AwaitSnapshot(ctx context.Context, limit time.Duration, wanted func(*watch.Snapshot) error) error {
	return stage.Poll(ctx, limit, func(ctx context.Context) error {
		sides, err := r.Snapshot(ctx)
		if err != nil {
			return err
		}
		return wanted(sides)
	})
}

// awaitDecided waits until no suspicion is left: a watch may still lag.
func awaitDecided(ctx context.Context, s *stage.Stage) error {
	return stage.Poll(ctx, 6*checker.WatchLag, func(context.Context) error { return s.Watch.Undecided() })
}

// countRuns adds what ran according to the kubelets' logs, if there are any, and checks the logs
// for the last time.
func (r *Run) countRuns(out *Result) (err error) {
	if r.Kubelets == nil {
		return nil
	}
	out.Observed = true
	out.Desktops, out.Twice, err = r.Kubelets.Counts(r.began)
	if err == nil && out.Desktops == 0 {
		err = errors.New("by the kubelets' logs, no desktop ever ran")
	}
	return err
}

// repair ends every fault of the stage.
func (r *Run) repair(ctx context.Context) error {
	for _, undo := range r.cleanups {
		undo()
	}
	r.cleanups = nil
	for _, w := range r.Proxies() {
		w.Set(netem.Conditions{})
	}
	var errs []string
	for m := range maps.Clone(r.PoweredOff) {
		if err := PowerOn(ctx, r, m); err != nil {
			errs = append(errs, err.Error())
		}
	}
	for _, p := range r.Fleet.Processes() {
		if err := p.Resume(); err != nil {
			errs = append(errs, err.Error())
		}
	}
	r.Supervisor.ReleaseAll()
	for m := range r.Removed {
		supervise(r, m, false)
	}
	for _, cp := range r.ControlPlanes() {
		if err := stage.RestartControlPlane(ctx, cp); err != nil {
			errs = append(errs, err.Error())
		}
	}
	if errs != nil {
		return fmt.Errorf("healing: %s", strings.Join(errs, "; "))
	}
	return nil
}
