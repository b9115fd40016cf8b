package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// DefaultMoveAfter is how long a member's kube-scheduler gets to find a node for a
// session's Pod before another member is tried.
const DefaultMoveAfter = 10 * time.Second

// move releases a placement whose Pod fits no node of the member, if another member has
// capacity for the session now. The member's free capacity may differ from the hub's count:
// kube-scheduler chooses the nodes. The session is rescheduled once its stop is confirmed;
// until then the capacity elsewhere stays reserved. Without capacity elsewhere it stays, as a
// pending session.
//
// A session that has run there is not moved, nor one whose home is there.
func (r *Reconciler) move(ctx context.Context, p *pass) (next, error) {
	s := p.session
	pod := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady)
	if pod == nil || pod.Status != metav1.ConditionFalse || pod.Reason != v1alpha1.ReasonUnschedulablePod || !neverRan(s) {
		r.memory.Settled(s)
		return goOn, nil
	}
	if r.Fleet.HealthOf(s.Status.Placement.ClusterUID) != health.Ready {
		return goOn, nil // it could not confirm the stop
	}
	now := r.Clock.Now()
	if wait := r.memory.MisfitWait(s, now, r.moveAfter()); wait > 0 {
		p.again = backoff.Sooner(p.again, wait)
		return goOn, nil
	}
	if kept, err := r.keptByHome(ctx, p); err != nil || kept {
		return goOn, err
	}
	d, answered, err := r.another(ctx, p, memory.NoNodeFits, v1alpha1.ReasonUnschedulablePod)
	if err != nil {
		return done, err
	}
	if !answered || !d.Placed {
		return goOn, nil
	}
	held := s.Status.Placement
	r.giveUpPlace(p)
	p.record(r, "Warning", v1alpha1.EventMoved, "Move", fmt.Sprintf("no node of %s fits its Pod: it goes to %s", held.ClusterName, d.Cluster.Name))
	p.events = append(p.events, func() {
		r.memory.Moved(s.UID, held, now)
		moved.WithLabelValues(v1alpha1.ReasonUnschedulablePod).Inc()
	})
	return done, nil
}

// neverRan reports whether a session that is to run was never ready where it is placed.
func neverRan(s *v1alpha1.VDISession) bool {
	at, start := s.Status.Placement, s.Status.StartTime
	if !status.ToRun(s) {
		return false
	}
	return start == nil || s.Status.RunningSince == nil && at.Run <= 1 && start.Before(&at.PlacementTime)
}

// keptByHome reports whether the session's home keeps it where it is placed: a home with
// which it was ever ready. Any other home is still empty.
func (r *Reconciler) keptByHome(ctx context.Context, p *pass) (bool, error) {
	s := p.session
	switch {
	case !status.HasHome(p.spec):
		return s.Status.Home != nil, nil
	case s.Status.StartTime != nil:
		return true, nil
	case p.spec.Home.Mode == v1alpha1.HomePerSession:
		return false, nil
	}
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, home.Key(s), h); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return true, fmt.Errorf("reading the home: %w", err)
	}
	return h.Annotations[home.AnnotationUnused] == "" || h.Status.MountedByUID != s.UID, nil
}

// another requests capacity in any other member than the current one, by the current
// policies. why is the reason against the current member, reason is what the session waits
// for. Without an answer the session is enqueued once there is a decision. Without a policy
// none is Placed.
func (r *Reconciler) another(ctx context.Context, p *pass, why, reason string) (d placement.Decision, answered bool, err error) {
	s := p.session
	if err := r.readPolicies(ctx, p); err != nil {
		return d, false, err
	}
	policy, found := policy.Governing(s, p.policies)
	if !found {
		p.await(reason)
		return d, true, nil
	}
	req := r.request(p, policy)
	req.Refused[s.Status.Placement.ClusterUID] = why
	a, answered := r.ask(p, &scheduling.Request{Placement: req, Epoch: r.nextEpoch(s), Reason: reason})
	return a.Decision, answered, nil
}

// giveUpPlace releases the session's placement. It is rescheduled once the member has
// confirmed that nothing of it runs.
func (r *Reconciler) giveUpPlace(p *pass) {
	s, held := p.session, p.session.Status.Placement
	s.Status.Releasing = slices.DeleteFunc(s.Status.Releasing, func(x v1alpha1.Release) bool { return x.ClusterUID == held.ClusterUID })
	s.Status.Releasing = append(s.Status.Releasing, v1alpha1.Release{
		ClusterName: held.ClusterName, ClusterUID: held.ClusterUID, Policy: held.Policy, Epoch: held.Epoch, FailoverMode: held.FailoverMode,
	})
	s.Status.Placement, s.Status.URL, s.Status.IdleSince = nil, "", nil
	s.Status.Conditions = status.DropAgentConditions(s.Status.Conditions)
	meta.RemoveStatusCondition(&s.Status.Conditions, v1alpha1.ConditionAssigned)
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReleasing, Message: status.ReleasingMessage(s, ""),
	})
}

func (r *Reconciler) moveAfter() time.Duration {
	if r.MoveAfter > 0 {
		return r.MoveAfter
	}
	return DefaultMoveAfter
}
