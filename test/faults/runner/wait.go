package runner

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// pollInterval is how often the checker is read for an event: often enough to act at once.
const pollInterval = time.Millisecond

// Await waits until seen reports what the watches have shown.
func (r *Run) Await(ctx context.Context, what string, seen func(*checker.Checker) bool) error {
	if err := r.AwaitWithin(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, seen); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// AwaitWithin waits like Await, up to a limit that is not scaled.
func (r *Run) AwaitWithin(ctx context.Context, limit time.Duration, seen func(*checker.Checker) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		found := false
		r.Watch.With(func(c *checker.Checker, _ time.Time) { found = seen(c) })
		if found {
			return nil
		}
		if err := stage.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// CreateSession creates a session beside the workload's, in a member.
func CreateSession(ctx context.Context, r *Run, n int, m *harness.Member) (types.UID, error) {
	s := workload.NewSession(fmt.Sprintf("%s-single-%d", r.Scenario.Name, n), 3)
	s.Spec.Placement.RequiredRegions = []string{m.Spec.Region}
	if err := stage.Poll(ctx, stage.Allowance, func(ctx context.Context) error { return r.Watch.Hub.Create(ctx, s) }); err != nil {
		return "", fmt.Errorf("creating %s: %w", s.Name, err)
	}
	return s.UID, nil
}

// Placed reports whether the hub's API server has a placement of the session.
func Placed(uid types.UID) func(*checker.Checker) bool {
	return func(c *checker.Checker) bool { return c.Session(uid) != nil && c.Session(uid).Cluster != "" }
}

// Stored reports whether the member's API server has the session's assignment.
func Stored(m *harness.Member, uid types.UID) func(*checker.Checker) bool {
	return func(c *checker.Checker) bool { _, there := c.Assignment(m.Name, uid); return there }
}

// Running reports whether the hub shows the session's desktop ready.
func Running(uid types.UID) func(*checker.Checker) bool {
	return func(c *checker.Checker) bool { return c.Session(uid) != nil && c.Session(uid).PodReady }
}

// ReadyReason returns the reason of a member's condition Ready.
func ReadyReason(ctx context.Context, r *Run, member string) (string, error) {
	m := &v1alpha1.MemberCluster{}
	if err := r.Watch.Hub.Get(ctx, watch.Key("/"+member), m); err != nil {
		return "", err
	}
	for _, c := range m.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Reason, nil
		}
	}
	return "", nil
}

// AwaitReadyReason waits until a member's condition Ready has a reason, or no longer has it.
func AwaitReadyReason(ctx context.Context, r *Run, member, reason string, so bool) error {
	err := stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error {
		switch got, err := ReadyReason(ctx, r, member); {
		case err != nil:
			return err
		case (got == reason) != so:
			return fmt.Errorf("the hub shows %s", got)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be %s (%t): %w", member, reason, so, err)
	}
	return nil
}

// stableTime is how long a member must be Ready before a change counts as caused by the scenario:
// longer than an earlier outage takes to show, and than the hub delays its status.
const stableTime = 45 * time.Second

// AwaitStable waits until the hub has shown a member connected for long enough, whatever an earlier
// scenario did to it.
func AwaitStable(ctx context.Context, r *Run, member string) error {
	for since := time.Now(); time.Since(since) < r.Scaled(stableTime); {
		reason, err := ReadyReason(ctx, r, member)
		if err != nil {
			return err
		}
		if reason != v1alpha1.ReasonConnected {
			since = time.Now()
		}
		if err := r.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}
