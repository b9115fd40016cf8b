package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// oneInAny of a soak's scenarios is drawn from all of them, the others from those
// that leave hub and agents alive: only a process that lives long shows a leak.
const oneInAny = 4

// soak draws scenarios at random on one fleet, of the kind that the first one that
// was chosen needs, for a time, and compares what hub
// and agents take before and after.
func soak(t *testing.T, s settings) []row {
	t.Helper()
	random := rand.New(rand.NewPCG(s.seed, 0))
	var all, gentle []scenario
	of := s.chosen[0].kind
	for _, sc := range s.chosen {
		if sc.alone || sc.kind != of {
			continue
		}
		all = append(all, sc)
		if !sc.ends {
			gentle = append(gentle, sc)
		}
	}
	if len(gentle) == 0 {
		gentle = all
	}
	stage := begin(t, s, of)
	if stage == nil {
		return nil
	}
	defer func() { end(t, stage) }()
	var rows []row
	var before []footprint
	began := time.Now()
	for n := 0; time.Since(began) < s.soak; n++ {
		from := gentle
		if n%oneInAny == oneInAny-1 {
			from = all
		}
		if err := stage.allReady(t.Context()); err != nil {
			t.Error(err)
			return rows
		}
		sc := from[random.IntN(len(from))]
		stage.seed = random.Uint64N(1e6)
		say("  %s (seed %d), %s of %s", sc.name, stage.seed, time.Since(began).Round(time.Second), s.soak)
		result := stage.play(t.Context(), sc)
		rows = append(rows, result)
		if result.Failed != "" {
			say("  %s: %s", sc.name, result.Failed)
			stage.keepLogs(t, sc.name)
			return rows // what it left would be the next one's trouble
		}
		now, err := stage.footprints(t.Context())
		if err != nil {
			t.Error(err)
			return rows
		}
		for _, f := range now {
			say("    %s", f)
		}
		before = firsts(before, now)
		if err := grown(before, now); err != nil {
			t.Errorf("after %s: %v", time.Since(began).Round(time.Second), err)
			return rows
		}
	}
	return rows
}

// allReady waits until every member takes sessions: those that chance has drawn
// again and again may be in quarantine, and a scenario places sessions where it
// likes.
func (s *stage) allReady(ctx context.Context) error {
	return poll(ctx, s.scaled(quarantine)+allowance, func(ctx context.Context) error {
		for _, member := range s.fleet.Members {
			m := &v1alpha1.MemberCluster{}
			if err := s.watch.hub.Get(ctx, key("/"+member.Name), m); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Errorf("%s is not Ready again: %v", member.Name, m.Status.Conditions)
			}
		}
		return nil
	})
}
