package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Run is a running scenario.
type Run struct {
	*stage.Stage
	Scenario Scenario
	Random   *rand.Rand
	Workload *workload.Workload
	began    time.Time
	// mu guards injected.
	mu       sync.Mutex
	injected []Injection
	// cleanups run when the scenario is over, lastCleanups when it has been checked.
	cleanups, lastCleanups []func()
}

// Record adds an injected fault, or its effect, to the report.
func (r *Run) Record(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := Injection{After: time.Since(r.began), What: fmt.Sprintf(format, args...)}
	r.injected = append(r.injected, i)
	r.Logf("    %s", i)
}

// Cleanup runs a function when the scenario is over, however it ends.
func (r *Run) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// CleanupLast runs a function after the scenario's sessions were checked and deleted, in reverse
// order.
func (r *Run) CleanupLast(f func()) { r.lastCleanups = append([]func(){f}, r.lastCleanups...) }

// Pause waits for a production time, scaled.
func (r *Run) Pause(ctx context.Context, d time.Duration) error {
	return stage.Sleep(ctx, r.Scaled(d))
}

// PauseRandomly waits for a random part of a production time, scaled.
func (r *Run) PauseRandomly(ctx context.Context, most time.Duration) error {
	return r.Pause(ctx, time.Duration(r.Random.Int64N(int64(most))))
}

// RandomMember returns a random member.
func (r *Run) RandomMember() *harness.Member {
	return r.Fleet.Members[r.Random.IntN(len(r.Fleet.Members))]
}

// Leader waits until a replica of the hub leads.
func (r *Run) Leader(ctx context.Context) (*harness.Replica, error) {
	var leader *harness.Replica
	err := stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error {
		if leader = r.Fleet.Hub.Leader(ctx); leader == nil {
			return fmt.Errorf("no replica of the hub leads")
		}
		return nil
	})
	return leader, err
}

// KillLeader kills the hub's leader; the supervisor starts it again.
func (r *Run) KillLeader(ctx context.Context, when string) error {
	leader, err := r.Leader(ctx)
	if err != nil {
		return err
	}
	r.Record("kill -9 %s (leader) %s", leader.Spec.Name, when)
	return leader.Kill()
}

// RecordOutage records that a member becomes unavailable, before it does.
func (r *Run) RecordOutage(member string) {
	r.Watch.With(func(c *checker.Checker, now time.Time) { c.RecordOutage(now, member) })
}

// SetNetwork changes the network between a member and the hub.
func (r *Run) SetNetwork(member string, now netem.Conditions, what string) {
	r.Record("%s: %s", member, what)
	if now.CutToHub || now.CutToAgent {
		r.RecordOutage(member)
	}
	r.Links[member].Set(now)
}
