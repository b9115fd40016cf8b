package faults

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
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// operator is who these tests are on the hub.
const operator = "admin"

// words have an operator say that a member is off.
func words() []scenario {
	return []scenario{
		{name: "operators-word", do: operatorsWord},
		{name: "operators-word-outlived", ends: true, do: operatorsWordOutlived},
		{name: "removed-for-good", alone: true, do: removedForGood},
	}
}

// operatorsWord releases all of a member's sessions at once, and counts no more when
// the member is back.
func operatorsWord(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	if err := r.declareFenced(ctx, m); !refused(err) {
		return errors.Join(fmt.Errorf("%s is connected, and that it is off was to be refused", m.Name), err)
	}
	if err := r.fencedAtOnce(ctx, m, all); err != nil {
		return err
	}
	since := time.Now()
	if err := r.powerOn(ctx, m); err != nil {
		return err
	}
	if err := r.healed(ctx, all); err != nil {
		return err
	}
	// Whoever runs twice is seen by the kubelets' logs anyway: this is that none did
	// for so short a time that it went unseen.
	if err := r.neverAgain(append(all.of(v1alpha1.FailoverHold), all.of(v1alpha1.FailoverFence)...), since); err != nil {
		return err
	}
	return r.notFenced(ctx, m)
}

// operatorsWordOutlived: somebody says that a member is off just as it returns, and the
// leader to which it has returned dies before it could store that. The next leader
// reads the word alone, and has yet to hear of the agent.
func operatorsWordOutlived(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, []wish{{mode: v1alpha1.FailoverHold}, {mode: v1alpha1.FailoverHold, template: homed}})
	if err != nil {
		return err
	}
	since := time.Now()
	r.weather(m.Name, cutOff, "cut off both ways")
	if err := poll(ctx, r.scaled(time.Minute)+allowance, func(ctx context.Context) error { return r.declareFenced(ctx, m, client.DryRunAll) }); err != nil {
		return fmt.Errorf("waiting until %s may be declared fenced: %w", m.Name, err)
	}
	leader, err := r.leader(ctx)
	if err != nil {
		return err
	}
	r.harm("%s (leader) is cut off from its API server", leader.Spec.Name)
	r.apiWires[leader.Spec.Name].set(weather{CutToHub: true, CutToAgent: true})
	if err := r.declareFenced(ctx, m); err != nil {
		return fmt.Errorf("declaring %s fenced: %w", m.Name, err)
	}
	r.harm("%s is declared fenced", m.Name)
	r.weather(m.Name, weather{}, "healed")
	if err := r.moment(ctx, 10*time.Second); err != nil {
		return err
	}
	r.harm("kill -9 %s (leader)", leader.Spec.Name)
	if err := leader.Kill(); err != nil {
		return err
	}
	r.apiWires[leader.Spec.Name].set(weather{})
	if err := r.healed(ctx, all); err != nil {
		return err
	}
	if err := r.notFenced(ctx, m); err != nil {
		return err
	}
	return r.untouched(all, since)
}

// notFenced waits until the hub has taken an operator's word away.
func (r *run) notFenced(ctx context.Context, m *harness.Member) error {
	return poll(ctx, r.scaled(agreeWithin)+allowance, func(ctx context.Context) error {
		mc := &v1alpha1.MemberCluster{}
		if err := r.watch.hub.Get(ctx, key("/"+m.Name), mc); err != nil {
			return err
		}
		if mc.Spec.Fenced != nil {
			return fmt.Errorf("%s is back, and still declared fenced by %s", m.Name, mc.Spec.Fenced.By)
		}
		return nil
	})
}

// fencedAtOnce takes a member's power, gives the word as soon as it may be given, and
// waits until all guests run elsewhere: those of mode Hold too.
func (r *run) fencedAtOnce(ctx context.Context, m *harness.Member, all guests) error {
	since := time.Now()
	if err := r.powerOff(m); err != nil {
		return err
	}
	if err := r.healthIs(ctx, m.Name, v1alpha1.ReasonUnreachable, true); err != nil {
		return err
	}
	r.watch.heard(func(c *checker, _ time.Time) { c.word[m.Name] = true })
	if err := poll(ctx, allowance, func(ctx context.Context) error { return r.declareFenced(ctx, m) }); err != nil {
		return fmt.Errorf("declaring %s fenced: %w", m.Name, err)
	}
	r.harm("%s is declared fenced", m.Name)
	limit := r.scaled(agreeWithin) + 2*allowance
	err := r.awaitWithin(ctx, limit, func(c *checker) bool {
		for _, g := range all {
			if !g.movedTo(c) || !c.sessions[g.uid].PodReady {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%s is fenced, and its guests do not run elsewhere: %w\n%s", m.Name, err, r.whereabouts(ctx, all))
	}
	r.harm("all %d guests run elsewhere, %.1fs after the harm", len(all), time.Since(since).Seconds())
	return nil
}

// declareFenced gives an operator's word, as `kubectl vdi fence` does.
func (r *run) declareFenced(ctx context.Context, m *harness.Member, options ...client.PatchOption) error {
	mc := &v1alpha1.MemberCluster{}
	if err := r.watch.hub.Get(ctx, key("/"+m.Name), mc); err != nil {
		return err
	}
	before := mc.DeepCopy()
	mc.Spec.Fenced = &v1alpha1.FencedDeclaration{Fingerprint: mc.Status.Fingerprint, By: operator, At: metav1.Now()}
	return r.watch.hub.Patch(ctx, mc, client.MergeFrom(before), options...)
}

// refused: an admission policy has said no.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// removedForGood removes a member that never comes back, with sessions on it: not
// before somebody has said that it is off.
func removedForGood(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, oneHomed)
	if err != nil {
		return err
	}
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
	err = r.watch.hub.Delete(ctx, mc)
	if !refused(err) || !strings.Contains(err.Error(), "session") {
		return errors.Join(fmt.Errorf("%s has sessions, and its removal was to be refused for that", m.Name), err)
	}
	r.harm("its removal is refused: %v", err)
	if err := r.fencedAtOnce(ctx, m, all); err != nil {
		return err
	}
	r.bury(m)
	if err := r.watch.hub.Delete(ctx, mc); err != nil {
		return fmt.Errorf("removing %s, which is fenced: %w", m.Name, err)
	}
	r.harm("%s is removed for good", m.Name)
	return poll(ctx, r.scaled(agreeWithin)+allowance, func(ctx context.Context) error {
		err := r.watch.hub.Get(ctx, key("/"+m.Name), mc)
		if err == nil {
			err = errors.New("its object is still there")
		}
		return ignoreNotFound(err)
	})
}
