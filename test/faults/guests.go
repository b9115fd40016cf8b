package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// guest is a session beside the workload's, which nobody but the fleet touches. It
// ran in a member when the harm began, and may run in any.
type guest struct {
	uid   types.UID
	name  string
	mode  v1alpha1.FailoverMode
	at    *harness.Member
	epoch int64
}

// guests of one member.
type guests []guest

func (all guests) of(mode v1alpha1.FailoverMode) guests {
	return slices.DeleteFunc(slices.Clone(all), func(g guest) bool { return g.mode != mode })
}

// wish is what a guest asks for.
type wish struct {
	mode     v1alpha1.FailoverMode
	template string
	healing  v1alpha1.HealingMode
}

// oneHomed is a guest of each kind: of Restart and Fence twice, of Hold one without
// a home and one with.
var oneHomed = []wish{
	{mode: v1alpha1.FailoverRestart}, {mode: v1alpha1.FailoverRestart},
	{mode: v1alpha1.FailoverFence}, {mode: v1alpha1.FailoverFence},
	{mode: v1alpha1.FailoverHold}, {mode: v1alpha1.FailoverHold, template: homed},
}

// invite has sessions run in a member that go elsewhere if they must.
func (r *run) invite(ctx context.Context, m *harness.Member, wishes []wish) (guests, error) {
	if err := r.stable(ctx, m.Name); err != nil {
		return nil, err
	}
	var all guests
	var made []*v1alpha1.VDISession
	for i, w := range wishes {
		s := r.work.newSession(0, 3)
		s.Name = fmt.Sprintf("%s-guest-%s-%02d", r.scenario.name, m.Name, i)
		s.Spec.User = s.Name + "@example.com"
		s.Spec.Failover = v1alpha1.SessionFailover{Mode: w.mode, Healing: w.healing}
		s.Spec.Placement.PreferredRegions = []string{m.Spec.Region}
		s.Spec.Placement.ClusterTolerations = []corev1.Toleration{{Key: simulatedTaint, Operator: corev1.TolerationOpExists}}
		if w.template != "" {
			s.Spec.Template = w.template
		}
		uid, err := r.seatIn(ctx, m, s)
		if err != nil {
			return nil, err
		}
		all, made = append(all, guest{uid: uid, name: s.Name, mode: w.mode, at: m}), append(made, s)
	}
	for i := range all {
		if err := r.stay(ctx, &all[i], made[i]); err != nil {
			return nil, err
		}
	}
	return all, r.settleIn(ctx, all)
}

// seatIn creates a session until it is placed where it prefers to be: a member that
// a busy machine kept from renewing for a moment gets none.
func (r *run) seatIn(ctx context.Context, m *harness.Member, s *v1alpha1.VDISession) (uid types.UID, err error) {
	err = poll(ctx, r.scaled(agreeWithin)+2*allowance, func(ctx context.Context) error {
		made := s.DeepCopy()
		switch err := r.watch.hub.Create(ctx, made); {
		case apierrors.IsAlreadyExists(err): // not placed in time, or still being deleted
			if err := r.watch.hub.Get(ctx, key(namespace+"/"+s.Name), made); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if made.DeletionTimestamp != nil {
			return errors.New("the one that was placed elsewhere is still there")
		}
		if err := r.await(ctx, "it is placed", placed(made.UID)); err != nil {
			return err
		}
		uid = made.UID
		cluster := ""
		r.watch.heard(func(c *checker, _ time.Time) { cluster = c.sessions[uid].Cluster })
		if cluster == m.Name {
			return nil
		}
		return errors.Join(fmt.Errorf("it is placed in %s", cluster), r.watch.hub.Delete(ctx, made))
	})
	if err != nil {
		return "", fmt.Errorf("placing %s in %s: %w", s.Name, m.Name, err)
	}
	return uid, nil
}

// stay has a guest run where it was seated: one that got no node or volume in time on
// a busy machine has gone elsewhere, and is seated again.
func (r *run) stay(ctx context.Context, g *guest, s *v1alpha1.VDISession) error {
	for range 3 {
		at := ""
		if err := r.await(ctx, g.name+" runs", func(c *checker) bool {
			f := c.sessions[g.uid]
			at = f.Cluster
			return f.PodReady
		}); err != nil {
			return err
		}
		if at == g.at.Name {
			return nil
		}
		if err := r.watch.hub.Delete(ctx, s.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("seating %s again: %w", g.name, err)
		}
		uid, err := r.seatIn(ctx, g.at, s)
		if err != nil {
			return err
		}
		g.uid = uid
	}
	return fmt.Errorf("%s was seated in %s, and went elsewhere again and again", g.name, g.at.Name)
}

// settleIn waits until guests run where they are to be, with a guard where their
// mode asks for one.
func (r *run) settleIn(ctx context.Context, all guests) error {
	for i := range all {
		g := &all[i]
		err := poll(ctx, r.scaled(agreeWithin)+2*allowance, func(ctx context.Context) error {
			s := &v1alpha1.VDISession{}
			if err := r.watch.hub.Get(ctx, key(namespace+"/"+g.name), s); err != nil {
				return err
			}
			p := s.Status.Placement
			switch {
			case p == nil || !podReady(s.Status.Conditions):
				return fmt.Errorf("it is %s: %s", s.Status.Phase, s.Status.Message)
			case p.ClusterName != g.at.Name:
				return fmt.Errorf("it is in %s", p.ClusterName)
			case g.mode == v1alpha1.FailoverFence && !p.Guarded:
				return errors.New("it has no guard")
			}
			g.epoch = p.Epoch
			return nil
		})
		if err != nil {
			return fmt.Errorf("having %s run in %s: %w", g.name, g.at.Name, err)
		}
	}
	return nil
}

// elsewhere waits until guests run in another member, and says how long after the
// harm the last of them did.
func (r *run) elsewhere(ctx context.Context, all guests, since time.Time, due time.Duration) error {
	if len(all) == 0 {
		return nil
	}
	// A leader that began a moment ago may have to give its members time first.
	limit := max(allowance, time.Until(since)+r.scaled(due+regain)+2*allowance)
	err := r.awaitWithin(ctx, limit, func(c *checker) bool {
		return !slices.ContainsFunc(all, func(g guest) bool { return !g.movedTo(c) || !c.sessions[g.uid].PodReady })
	})
	if err != nil {
		return fmt.Errorf("%s guests of %s, which is away, do not run elsewhere: %w\n%s", all[0].mode, all[0].at.Name, err, r.whereabouts(ctx, all))
	}
	r.harm("%d %s guests of %s run elsewhere, %.1fs after the harm (policy: %s)", len(all), all[0].mode, all[0].at.Name, time.Since(since).Seconds(), r.scaled(due))
	return nil
}

// movedTo: it is placed in another member.
func (g guest) movedTo(c *checker) bool {
	k := c.sessions[g.uid]
	return k != nil && k.Cluster != "" && k.Cluster != g.at.Name
}

// firstMoves waits until one guest is placed elsewhere, and names the member.
func (r *run) firstMoves(ctx context.Context, all guests, due time.Duration) (to string, err error) {
	err = r.awaitWithin(ctx, r.scaled(due+regain)+2*allowance, func(c *checker) bool {
		i := slices.IndexFunc(all, func(g guest) bool { return g.movedTo(c) })
		if i >= 0 {
			to = c.sessions[all[i].uid].Cluster
		}
		return i >= 0
	})
	if err != nil {
		return "", fmt.Errorf("no %s guest of %s is placed elsewhere: %w\n%s", all[0].mode, all[0].at.Name, err, r.whereabouts(ctx, all))
	}
	return to, nil
}

// stayed: guests are placed where they were, under the epoch of then.
func (r *run) stayed(all guests) error {
	var errs []error
	r.watch.heard(func(c *checker, _ time.Time) {
		for _, g := range all {
			if k := c.sessions[g.uid]; k.Cluster != g.at.Name || k.Placed != g.epoch {
				errs = append(errs, fmt.Errorf("%s guest %s was in %s under epoch %d, and is in %q under %d", g.mode, g.name, g.at.Name, g.epoch, k.Cluster, k.Placed))
			}
		}
	})
	return errors.Join(errs...)
}

// pending waits until the hub says of guests that they wait to be rescheduled, and
// for what.
func (r *run) pending(ctx context.Context, all guests, word string) error {
	for _, g := range all {
		err := poll(ctx, r.scaled(unreachable+restartAfter)+2*allowance, func(ctx context.Context) error {
			ready, err := r.ready(ctx, g)
			switch {
			case err != nil:
				return err
			case ready.Reason != v1alpha1.ReasonFailoverPending || ready.Status != metav1.ConditionUnknown:
				return fmt.Errorf("it is Ready=%s (%s: %s)", ready.Status, ready.Reason, ready.Message)
			case !strings.Contains(ready.Message, word):
				return fmt.Errorf("it says %q, and not a word of %q", ready.Message, word)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("promise 9: %s guest %s of %s, which is away, does not say what it waits for: %w", g.mode, g.name, g.at.Name, err)
		}
	}
	return nil
}

func (r *run) ready(ctx context.Context, g guest) (metav1.Condition, error) {
	s := &v1alpha1.VDISession{}
	if err := r.watch.hub.Get(ctx, key(namespace+"/"+g.name), s); err != nil {
		return metav1.Condition{}, err
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c, nil
	}
	return metav1.Condition{}, errors.New("it has no condition Ready")
}

// whereabouts is for whoever reads of guests that are not where they should be.
func (r *run) whereabouts(ctx context.Context, all guests) string {
	var out strings.Builder
	for _, g := range all {
		s := &v1alpha1.VDISession{}
		if err := r.watch.hub.Get(context.WithoutCancel(ctx), key(namespace+"/"+g.name), s); err != nil {
			_, _ = fmt.Fprintf(&out, "%s: %v\n", g.name, err)
			continue
		}
		_, _ = fmt.Fprintf(&out, "%s (%s): placement %+v, releasing %+v, %s: %s\n", g.name, g.mode, s.Status.Placement, s.Status.Releasing, s.Status.Phase, s.Status.Message)
	}
	return out.String()
}
