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

// operator is who these tests are on the hub.
const operator = "admin"

// declarations have an operator say that a member is off.
func declarations() []runner.Scenario {
	return []runner.Scenario{
		{Name: "operators-word", Do: declaredFenced},
		{Name: "operators-word-outlived", EndsProcesses: true, Do: declarationOutlived},
		{Name: "removed-for-good", Alone: true, Do: removedForGood},
	}
}

// declaredFenced releases all of a member's sessions at once, and counts no more when
// the member is back.
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
	// Whoever runs twice is seen by the kubelets' logs anyway: this is that none did
	// for so short a time that it went unseen.
	if err := probe.CheckNotRestarted(r, append(all.OfMode(v1alpha1.FailoverHold), all.OfMode(v1alpha1.FailoverFence)...), since); err != nil {
		return err
	}
	return awaitNotFenced(ctx, r, m)
}

// declarationOutlived: somebody says that a member is off just as it returns, and the
// leader to which it has returned dies before it could store that. The next leader
// reads the word alone, and has yet to hear of the agent.
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
	r.SetNetwork(m.Name, netem.Conditions{}, "healed")
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

// awaitNotFenced waits until the hub has taken an operator's word away.
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

// fenceAndAwait takes a member's power, gives the word as soon as it may be given, and
// waits until all guests run elsewhere: those of mode Hold too.
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
		for _, g := range all {
			if !g.Moved(c) || !c.Session(g.UID).PodReady {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%s is fenced, and its guests do not run elsewhere: %w\n%s", m.Name, err, probe.Describe(ctx, r, all))
	}
	r.Record("all %d guests run elsewhere, %.1fs after the harm", len(all), time.Since(since).Seconds())
	return nil
}

// declareFenced gives an operator's word, as `kubectl vdi fence` does.
func declareFenced(ctx context.Context, r *runner.Run, m *harness.Member, options ...client.PatchOption) error {
	mc := &v1alpha1.MemberCluster{}
	if err := r.Watch.Hub.Get(ctx, watch.Key("/"+m.Name), mc); err != nil {
		return err
	}
	before := mc.DeepCopy()
	mc.Spec.Fenced = &v1alpha1.FencedDeclaration{Fingerprint: mc.Status.Fingerprint, By: operator, At: metav1.Now()}
	return r.Watch.Hub.Patch(ctx, mc, client.MergeFrom(before), options...)
}

// refused: an admission policy has said no.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// removedForGood removes a member that never comes back, with sessions on it: not
// before somebody has said that it is off.
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
	r.Record("%s is removed for good", m.Name)
	return stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(ctx context.Context) error {
		err := r.Watch.Hub.Get(ctx, watch.Key("/"+m.Name), mc)
		if err == nil {
			err = errors.New("its object is still there")
		}
		return watch.IgnoreNotFound(err)
	})
}
