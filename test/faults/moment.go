package faults

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// watchful is how often a moment is looked for: often enough to be in it.
const watchful = time.Millisecond

// await waits until the watches have told something.
func (r *run) await(ctx context.Context, what string, seen func(*checker) bool) error {
	if err := r.awaitWithin(ctx, r.scaled(agreeWithin)+allowance, seen); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// awaitWithin does so for a time that is not scaled any more.
func (r *run) awaitWithin(ctx context.Context, limit time.Duration, seen func(*checker) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		found := false
		r.watch.heard(func(c *checker, _ time.Time) { found = seen(c) })
		if found {
			return nil
		}
		if err := sleep(ctx, watchful); err != nil {
			return err
		}
	}
}

// marked creates a session beside the workload's, in a member.
func (r *run) marked(ctx context.Context, n int, m *harness.Member) (types.UID, error) {
	s := r.work.newSession(n, 3)
	s.Name = fmt.Sprintf("%s-marked-%d", r.scenario.name, n)
	s.Spec.Placement.RequiredRegions = []string{m.Spec.Region}
	if err := poll(ctx, allowance, func(ctx context.Context) error { return r.watch.hub.Create(ctx, s) }); err != nil {
		return "", fmt.Errorf("creating %s: %w", s.Name, err)
	}
	return s.UID, nil
}

// placed: the hub's API server has a placement of the session.
func placed(uid types.UID) func(*checker) bool {
	return func(c *checker) bool { return c.sessions[uid] != nil && c.sessions[uid].Cluster != "" }
}

// stored: the member's API server has its assignment.
func stored(m *harness.Member, uid types.UID) func(*checker) bool {
	return func(c *checker) bool { _, there := c.held[m.Name][uid]; return there }
}

// runs: the hub shows it ready.
func runs(uid types.UID) func(*checker) bool {
	return func(c *checker) bool { return c.sessions[uid] != nil && c.sessions[uid].PodReady }
}

// health of a member as the hub shows it.
func (r *run) health(ctx context.Context, member string) (string, error) {
	m := &v1alpha1.MemberCluster{}
	if err := r.watch.hub.Get(ctx, key("/"+member), m); err != nil {
		return "", err
	}
	for _, c := range m.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Reason, nil
		}
	}
	return "", nil
}

// healthIs waits until the hub shows a member so, or not so.
func (r *run) healthIs(ctx context.Context, member, reason string, so bool) error {
	err := poll(ctx, r.scaled(time.Minute)+allowance, func(ctx context.Context) error {
		switch got, err := r.health(ctx, member); {
		case err != nil:
			return err
		case (got == reason) != so:
			return fmt.Errorf("the hub says %s", got)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be %s (%t): %w", member, reason, so, err)
	}
	return nil
}

// stableFor is for how long a member must be shown Ready before what it is shown
// as then is news: more than one needs that was lost, and than the hub holds back
// what it has to say of it.
const stableFor = 45 * time.Second

// stable waits until the hub has shown a member Ready for long enough, whatever
// an earlier scenario did to it.
func (r *run) stable(ctx context.Context, member string) error {
	for since := time.Now(); time.Since(since) < r.scaled(stableFor); {
		reason, err := r.health(ctx, member)
		if err != nil {
			return err
		}
		if reason != v1alpha1.ReasonConnected {
			since = time.Now()
		}
		if err := r.pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}
