package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// defaultSize is how many sessions a workload keeps.
const defaultSize = 24

// scenarioLimit bounds one scenario, in time of production; what no factor
// scales comes on top.
const (
	scenarioLimit = 15 * time.Minute
	scenarioSpare = 3 * time.Minute
)

// play plays one scenario and returns its row of the report.
func (s *stage) play(ctx context.Context, sc scenario) row {
	r := &run{stage: s, scenario: sc, random: s.draw(sc.name), began: time.Now()}
	out := row{Scenario: sc.name, Seed: s.seed, Factor: s.factor}
	ctx, cancel := context.WithTimeout(ctx, s.scaled(scenarioLimit)+scenarioSpare)
	defer cancel()
	before, heard, restarts := len(s.watch.violations()), s.told(), s.restarts()
	size := sc.size
	if size == 0 {
		size = defaultSize
	}
	r.work = newWorkload(s.watch.hub, sc.name, size, s.draw(sc.name+"/work"))

	err := r.work.fill(ctx, size)
	if err == nil {
		r.work.begin(ctx)
		err = sc.do(ctx, r)
	}
	err = errors.Join(err, r.settle(ctx, &out))
	err = errors.Join(err, s.decided(ctx), r.observed(&out))
	for _, undo := range r.last {
		undo()
	}
	out.Violations = s.watch.violations()[before:]
	out.Injected, out.Did = r.injected, r.work.did
	out.Heard, out.Restarts = s.told()-heard, s.restarts()-restarts
	out.Took = time.Since(r.began)
	out.Failed = verdict(err, out)
	return out
}

func verdict(err error, out row) string {
	switch {
	case err != nil:
		return err.Error()
	case len(out.Violations) > 0:
		return fmt.Sprintf("%d promises broken", len(out.Violations))
	case out.Heard == 0:
		return "the checker heard nothing"
	}
	return ""
}

// settle heals, and measures how long both sides need to agree and all to run.
// Then everything is deleted, under the same promises.
func (r *run) settle(ctx context.Context, out *row) error {
	r.work.end()
	if err := r.heal(ctx); err != nil {
		return err
	}
	healed := time.Now()
	limit := r.scaled(agreeWithin) + allowance + r.scenario.slack
	if err := r.until(ctx, limit, (*sides).agreement); err != nil {
		return fmt.Errorf("promise 8: the sides do not agree: %w", err)
	}
	out.Agreed = time.Since(healed)
	if err := r.until(ctx, r.scaled(quarantine)+limit, (*sides).running); err != nil {
		return fmt.Errorf("promise 8: not everything runs again: %w", err)
	}
	out.Running = time.Since(healed)
	r.watch.heard(func(c *checker, _ time.Time) { c.together() })

	if err := r.watch.hub.DeleteAllOf(ctx, &v1alpha1.VDISession{}, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("deleting what is left: %w", err)
	}
	if err := r.until(ctx, limit, (*sides).empty); err != nil {
		return fmt.Errorf("promise 8: what was deleted is still there: %w", err)
	}
	return nil
}

// until both sides are as wanted.
func (r *run) until(ctx context.Context, limit time.Duration, wanted func(*sides) error) error {
	return poll(ctx, limit, func(ctx context.Context) error {
		sides, err := r.sides(ctx)
		if err != nil {
			return err
		}
		return wanted(sides)
	})
}

// decided waits until no doubt is left: a watch may still lag.
func (s *stage) decided(ctx context.Context) error {
	return poll(ctx, 6*watchLag, func(context.Context) error { return s.watch.undecided() })
}

// observed adds what really ran, where that is known, and judges it for the last time.
func (r *run) observed(out *row) (err error) {
	if r.kubelets == nil {
		return nil
	}
	out.Observed = true
	out.Desktops, out.Twice, err = r.kubelets.tally(r.began)
	if err == nil && out.Desktops == 0 {
		err = errors.New("by the kubelets' logs, no desktop ever ran")
	}
	return err
}

func (s *stage) told() int {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return s.watch.checker.seen
}

func (s *stage) restarts() int {
	s.supervisor.mu.Lock()
	defer s.supervisor.mu.Unlock()
	return s.supervisor.restarts
}
