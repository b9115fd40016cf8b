package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// AwaitElsewhere waits until probes run in another member, and records how long after the fault the
// last of them did.
func AwaitElsewhere(ctx context.Context, r *runner.Run, all Probes, since time.Time, due time.Duration) error {
	if len(all) == 0 {
		return nil
	}
	// A leader that has just started may have to wait for its members first.
	limit := max(stage.Allowance, time.Until(since)+r.Scaled(due+stage.PlaceElsewhereAfter)+2*stage.Allowance)
	err := r.AwaitWithin(ctx, limit, func(c *checker.Checker) bool {
		return !slices.ContainsFunc(all, func(p Probe) bool { return !p.Moved(c) || !c.Session(p.UID).PodReady })
	})
	if err != nil {
		return fmt.Errorf("%s probes of %s, which is away, do not run elsewhere: %w\n%s", all[0].Mode, all[0].At.Name, err, Describe(ctx, r, all))
	}
	r.Record("%d %s probes of %s run elsewhere, %.1fs after the fault (policy: %s)", len(all), all[0].Mode, all[0].At.Name, time.Since(since).Seconds(), r.Scaled(due))
	return nil
}

// Moved reports whether the probe is placed in another member.
func (p Probe) Moved(c *checker.Checker) bool {
	k := c.Session(p.UID)
	return k != nil && k.Cluster != "" && k.Cluster != p.At.Name
}

// AwaitFirstMove waits until one probe is placed in another member, and returns that member.
func AwaitFirstMove(ctx context.Context, r *runner.Run, all Probes, due time.Duration) (to string, err error) {
	err = r.AwaitWithin(ctx, r.Scaled(due+stage.PlaceElsewhereAfter)+2*stage.Allowance, func(c *checker.Checker) bool {
		i := slices.IndexFunc(all, func(p Probe) bool { return p.Moved(c) })
		if i >= 0 {
			to = c.Session(all[i].UID).Cluster
		}
		return i >= 0
	})
	if err != nil {
		return "", fmt.Errorf("no %s probe of %s is placed elsewhere: %w\n%s", all[0].Mode, all[0].At.Name, err, Describe(ctx, r, all))
	}
	return to, nil
}

// CheckUnmoved checks that probes are placed where they were, under the same epoch.
func CheckUnmoved(r *runner.Run, all Probes) error {
	var errs []error
	r.Watch.With(func(c *checker.Checker, _ time.Time) {
		for _, p := range all {
			if k := c.Session(p.UID); k.Cluster != p.At.Name || k.Placed != p.epoch {
				errs = append(errs, fmt.Errorf("%s probe %s was in %s under epoch %d, and is in %q under %d", p.Mode, p.Name, p.At.Name, p.epoch, k.Cluster, k.Placed))
			}
		}
	})
	return errors.Join(errs...)
}

// AwaitPending waits until the status of probes shows that their failover is pending, and its
// cause.
func AwaitPending(ctx context.Context, r *runner.Run, all Probes, cause string) error {
	for _, p := range all {
		err := stage.Poll(ctx, r.Scaled(stage.Unreachable+stage.RestartAfter)+2*stage.Allowance, func(ctx context.Context) error {
			ready, err := readyCondition(ctx, r, p)
			switch {
			case err != nil:
				return err
			case ready.Reason != v1alpha1.ReasonFailoverPending || ready.Status != metav1.ConditionUnknown:
				return fmt.Errorf("it is Ready=%s (%s: %s)", ready.Status, ready.Reason, ready.Message)
			case !strings.Contains(ready.Message, cause):
				return fmt.Errorf("its message is %q, without %q", ready.Message, cause)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("G9: %s probe %s of %s, which is away, does not show what it waits for: %w", p.Mode, p.Name, p.At.Name, err)
		}
	}
	return nil
}

func readyCondition(ctx context.Context, r *runner.Run, p Probe) (metav1.Condition, error) {
	s := &v1alpha1.VDISession{}
	if err := r.Watch.Hub.Get(ctx, watch.Key(workload.Namespace+"/"+p.Name), s); err != nil {
		return metav1.Condition{}, err
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c, nil
	}
	return metav1.Condition{}, errors.New("it has no condition Ready")
}

// Describe returns what the hub holds of probes that are not where they should be.
func Describe(ctx context.Context, r *runner.Run, all Probes) string {
	var out strings.Builder
	for _, p := range all {
		s := &v1alpha1.VDISession{}
		if err := r.Watch.Hub.Get(context.WithoutCancel(ctx), watch.Key(workload.Namespace+"/"+p.Name), s); err != nil {
			_, _ = fmt.Fprintf(&out, "%s: %v\n", p.Name, err)
			continue
		}
		_, _ = fmt.Fprintf(&out, "%s (%s): placement %+v, releasing %+v, %s: %s\n", p.Name, p.Mode, s.Status.Placement, s.Status.Releasing, s.Status.Phase, s.Status.Message)
	}
	return out.String()
}

// AwaitFailover waits until the probes of a member that may be rescheduled run elsewhere, and
// checks that the others stay and show why.
func AwaitFailover(ctx context.Context, r *runner.Run, all Probes, since time.Time) error {
	if err := AwaitElsewhere(ctx, r, all.OfMode(v1alpha1.FailoverRestart), since, stage.Unreachable+stage.RestartAfter); err != nil {
		return err
	}
	if err := AwaitElsewhere(ctx, r, all.OfMode(v1alpha1.FailoverFence), since, stage.PlaceElsewhereAfter); err != nil {
		return err
	}
	hold := all.OfMode(v1alpha1.FailoverHold)
	if err := AwaitPending(ctx, r, hold, all[0].At.Name); err != nil {
		return err
	}
	return CheckUnmoved(r, hold)
}

// CheckAllIn checks that probes are placed in one member.
func CheckAllIn(r *runner.Run, m *harness.Member, all Probes) error {
	var err error
	r.Watch.With(func(c *checker.Checker, _ time.Time) {
		for _, p := range all {
			if k := c.Session(p.UID); k.Cluster != m.Name {
				err = fmt.Errorf("probe %s is in %q, and only %s is left", p.Name, k.Cluster, m.Name)
			}
		}
	})
	return err
}

// Unmoved returns the probes that are not placed in another member.
func Unmoved(r *runner.Run, all Probes) Probes {
	var waiting Probes
	r.Watch.With(func(c *checker.Checker, _ time.Time) {
		for _, p := range all {
			if !p.Moved(c) {
				waiting = append(waiting, p)
			}
		}
	})
	return waiting
}

// AwaitSome waits until n probes run elsewhere.
func AwaitSome(ctx context.Context, r *runner.Run, all Probes, n int, since time.Time) error {
	arrived := 0
	err := r.AwaitWithin(ctx, r.Scaled(stage.Unreachable+stage.RestartAfter+stage.PlaceElsewhereAfter)+2*stage.Allowance, func(c *checker.Checker) bool {
		arrived = 0
		for _, p := range all {
			if p.Moved(c) && c.Session(p.UID).PodReady {
				arrived++
			}
		}
		return arrived >= n
	})
	if err != nil {
		return fmt.Errorf("%d of %d probes run elsewhere, and there is capacity for %d: %w\n%s", arrived, len(all), n, err, Describe(ctx, r, all))
	}
	r.Record("%d of %d probes run elsewhere after %.1fs", arrived, len(all), time.Since(since).Seconds())
	return nil
}

// CheckUntouched checks that probes are where they were, and that their desktops have run all
// along.
func CheckUntouched(r *runner.Run, all Probes, since time.Time) error {
	return errors.Join(CheckUnmoved(r, all), CheckKeptRunning(r, all, since))
}
