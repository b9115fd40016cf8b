package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
)

// One in oneInAny of a soak's scenarios is drawn from all of them, the others from those that
// leave hub and agents running: only a process that runs for long shows a leak.
const oneInAny = 4

// soak draws scenarios at random for a time, on one fleet of the kind that the first chosen
// scenario needs, and compares what hub and agents use in its first and its last quarter.
func soak(t *testing.T, s settings) []runner.Result {
	t.Helper()
	random := rand.New(rand.NewPCG(s.seed, 0))
	var all, gentle []runner.Scenario
	of := s.chosen[0].Kind
	for _, sc := range s.chosen {
		if sc.Alone || sc.Kind != of {
			continue
		}
		all = append(all, sc)
		if !sc.EndsProcesses {
			gentle = append(gentle, sc)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no chosen scenario can share a fleet of kind %+v", of)
	}
	if len(gentle) == 0 {
		gentle = all
	}
	stage := begin(t, s, of)
	if stage == nil {
		return nil
	}
	defer func() { end(t, stage) }()
	var rows []runner.Result
	var samples [][]footprint
	began := time.Now()
	for n := 0; time.Since(began) < s.soak; n++ {
		from := gentle
		if n%oneInAny == oneInAny-1 {
			from = all
		}
		if err := allReady(t.Context(), stage); err != nil {
			t.Error(err)
			return rows
		}
		sc := from[random.IntN(len(from))]
		stage.Seed = random.Uint64N(1e6)
		logf("  %s (seed %d), %s of %s", sc.Name, stage.Seed, time.Since(began).Round(time.Second), s.soak)
		result := runner.Play(t.Context(), stage, sc)
		rows = append(rows, result)
		if result.Failed != "" {
			logf("  %s: %s", sc.Name, result.Failed)
			keepLogs(t, stage, sc.Name)
			return rows // what it left would affect the next one
		}
		now, err := footprints(t.Context(), stage)
		if err != nil {
			t.Error(err)
			return rows
		}
		for _, f := range now {
			logf("    %s", f)
		}
		samples = append(samples, now)
	}
	for _, c := range changes(samples) {
		logf("%s", c)
		if c.grown() {
			t.Errorf("%s: at most %+.0f%%", c, 100*(growth-1))
		}
	}
	return rows
}

// allReady waits until every member takes sessions: one that was drawn again and again may be in
// quarantine.
func allReady(ctx context.Context, s *stage.Stage) error {
	return stage.Poll(ctx, s.Scaled(stage.MaxQuarantine)+stage.Allowance, func(ctx context.Context) error {
		for _, member := range s.Fleet.Members {
			m := &v1alpha1.MemberCluster{}
			if err := s.Watch.Hub.Get(ctx, watch.Key("/"+member.Name), m); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Errorf("%s is not Ready again: %v", member.Name, m.Status.Conditions)
			}
		}
		return nil
	})
}
