package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/probe"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// operator is the hub user of these tests.
const operator = "admin"

// declarations returns the scenarios in which an operator declares a member fenced.
func declarations() []runner.Scenario {
	return []runner.Scenario{
		{Name: "declared-fenced", Do: declaredFenced},
		{Name: "declared-fenced-outlived", EndsProcesses: true, Do: declarationOutlived},
		{Name: "removed-permanently", Alone: true, Do: removedForGood},
	}
}

// declaredFenced releases all sessions of a fenced member at once. The declaration ends when the
// member is back.
func declaredFenced(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	if err := declareFenced(ctx, r, m); !refused(err) {
		return errors.Join(fmt.Errorf("%s is connected, and that it is off was to be refused", m.Name), err)
	}
	if err := fenceAndAwait(ctx, r, m, all); err != nil {
		return err
	}
	since := time.Now()
	if err := runner.PowerOn(ctx, r, m); err != nil {
		return err
	}
	if err := probe.AwaitOldStopped(ctx, r, all); err != nil {
		return err
	}
	// The kubelets' logs show what ran twice. This finds runs that were too short for the logs.
	if err := probe.CheckNotRestarted(r, append(all.OfMode(v1alpha1.FailoverHold), all.OfMode(v1alpha1.FailoverFence)...), since); err != nil {
		return err
	}
	return awaitNotFenced(ctx, r, m)
}

// declarationOutlived declares a member fenced just as it returns, and kills the leader before it
// can store that the member is back. The next leader reads the declaration before the agent
// connects to it.
func declarationOutlived(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, []probe.Request{{Mode: v1alpha1.FailoverHold}, {Mode: v1alpha1.FailoverHold, Template: workload.HomeTemplate}})
	if err != nil {
		return err
	}
	since := time.Now()
	r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
	if err := stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error { return declareFenced(ctx, r, m, client.DryRunAll) }); err != nil {
		return fmt.Errorf("waiting until %s may be declared fenced: %w", m.Name, err)
	}
	leader, err := r.Leader(ctx)
	if err != nil {
		return err
	}
	r.Record("%s (leader) is cut off from its API server", leader.Spec.Name)
	r.APILinks[leader.Spec.Name].Set(netem.Conditions{CutToHub: true, CutToAgent: true})
	if err := declareFenced(ctx, r, m); err != nil {
		return fmt.Errorf("declaring %s fenced: %w", m.Name, err)
	}
	r.Record("%s is declared fenced", m.Name)
	r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	if err := r.PauseRandomly(ctx, 10*time.Second); err != nil {
		return err
	}
	r.Record("kill -9 %s (leader)", leader.Spec.Name)
	if err := leader.Kill(); err != nil {
		return err
	}
	r.APILinks[leader.Spec.Name].Set(netem.Conditions{})
	if err := probe.AwaitOldStopped(ctx, r, all); err != nil {
		return err
	}
	if err := awaitNotFenced(ctx, r, m); err != nil {
		return err
	}
	return probe.CheckUntouched(r, all, since)
}

// awaitNotFenced waits until the hub has removed an operator's declaration.
func awaitNotFenced(ctx context.Context, r *runner.Run, m *harness.Member) error {
	return stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(ctx context.Context) error {
		mc := &v1alpha1.MemberCluster{}
		if err := r.Watch.Hub.Get(ctx, watch.Key("/"+m.Name), mc); err != nil {
			return err
		}
		if mc.Spec.Fenced != nil {
			return fmt.Errorf("%s is back, and still declared fenced by %s", m.Name, mc.Spec.Fenced.By)
		}
		return nil
	})
}

// fenceAndAwait cuts a member's power, declares it fenced as soon as that is admitted, and waits
// until all probes run elsewhere, those of mode Hold too.
func fenceAndAwait(ctx context.Context, r *runner.Run, m *harness.Member, all probe.Probes) error {
	since := time.Now()
	if err := runner.PowerOff(r, m); err != nil {
		return err
	}
	if err := runner.AwaitReadyReason(ctx, r, m.Name, v1alpha1.ReasonUnreachable, true); err != nil {
		return err
	}
	r.Watch.With(func(c *checker.Checker, _ time.Time) { c.DeclareFenced(m.Name) })
	if err := stage.Poll(ctx, stage.Allowance, func(ctx context.Context) error { return declareFenced(ctx, r, m) }); err != nil {
		return fmt.Errorf("declaring %s fenced: %w", m.Name, err)
	}
	r.Record("%s is declared fenced", m.Name)
	limit := r.Scaled(stage.ConvergeWithin) + 2*stage.Allowance
	err := r.AwaitWithin(ctx, limit, func(c *checker.Checker) bool {
		for _, p := range all {
			if !p.Moved(c) || !c.Session(p.UID).PodReady {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%s is fenced, and its probes do not run elsewhere: %w\n%s", m.Name, err, probe.Describe(ctx, r, all))
	}
	r.Record("all %d probes run elsewhere, %.1fs after the fault", len(all), time.Since(since).Seconds())
	return nil
}

// declareFenced declares a member fenced, as `kubectl vdi fence` does.
func declareFenced(ctx context.Context, r *runner.Run, m *harness.Member, options ...client.PatchOption) error {
	mc := &v1alpha1.MemberCluster{}
	if err := r.Watch.Hub.Get(ctx, watch.Key("/"+m.Name), mc); err != nil {
		return err
	}
	before := mc.DeepCopy()
	mc.Spec.Fenced = &v1alpha1.FencedDeclaration{Fingerprint: mc.Status.Fingerprint, By: operator, At: metav1.Now()}
	return r.Watch.Hub.Patch(ctx, mc, client.MergeFrom(before), options...)
}

// refused reports whether an admission policy refused a request.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// removedForGood removes a member with sessions that never returns. The removal is refused until
// an operator declares the member fenced.
func removedForGood(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, probe.Standard)
	if err != nil {
		return err
	}
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	err = r.Watch.Hub.Delete(ctx, mc)
	if !refused(err) || !strings.Contains(err.Error(), "session") {
		return errors.Join(fmt.Errorf("%s has sessions, and its removal was to be refused for that", m.Name), err)
	}
	r.Record("its removal is refused: %v", err)
	if err := fenceAndAwait(ctx, r, m, all); err != nil {
		return err
	}
	runner.MarkRemoved(r, m)
	if err := r.Watch.Hub.Delete(ctx, mc); err != nil {
		return fmt.Errorf("removing %s, which is fenced: %w", m.Name, err)
	}
	r.Record("%s is removed", m.Name)
	return stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(ctx context.Context) error {
		err := r.Watch.Hub.Get(ctx, watch.Key("/"+m.Name), mc)
		if err == nil {
			err = errors.New("its object is still there")
		}
		return watch.IgnoreNotFound(err)
	})
}
