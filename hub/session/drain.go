package session

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/drain"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Why sessions leave a member though it is well, as the metric says it.
const (
	movedByDrain     = "Drain"
	movedByRebalance = "Rebalance"
)

// leave takes a session from a member that an operator drains, or that he wants
// it to leave. One whose desktop is not to run, or that nobody uses, goes at once;
// one in use when the deadline of the draining has come. Room elsewhere is
// reserved first, and no more go at once than the operator allows. One whose home
// is there stays.
func (r *Reconciler) leave(ctx context.Context, p *pass) (next, error) {
	s := p.session
	at := s.Status.Placement
	if at == nil || p.reserved != nil {
		return goOn, nil
	}
	d, draining := r.Fleet.DrainOf(at.ClusterUID)
	if !draining {
		r.drains.End(at.ClusterUID)
		r.stay(p)
		return r.rebalance(ctx, p)
	}
	if r.Fleet.HealthOf(at.ClusterUID) != health.Ready {
		return goOn, nil // it could not confirm the stop
	}
	if !r.drains.Limit(at.ClusterUID, d.MaxUnavailable) {
		list := &v1alpha1.VDISessionList{}
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return done, fmt.Errorf("listing the sessions that leave a member that is drained: %w", err)
		}
		r.drains.Begin(at.ClusterUID, d.MaxUnavailable, d.StartTime, list.Items)
	}
	return r.drain(ctx, p, d)
}

// showDrain reports how far a member's draining is, and enqueues the sessions whose turn has
// come.
func (r *Reconciler) showDrain(u drain.Update) {
	if u.Member == "" {
		return
	}
	r.Fleet.ShowDrain(u.Member, u.Counts)
	scheduling.Requeued(scheduling.EventDrain, len(u.Next))
	for _, session := range u.Next {
		r.Enqueue(session)
	}
}

// drain is one session's part in the draining of its member.
func (r *Reconciler) drain(ctx context.Context, p *pass, d member.Drain) (next, error) {
	s := p.session
	at := s.Status.Placement
	l := drain.Session{Key: client.ObjectKeyFromObject(s), Epoch: at.Epoch, InUse: inUse(s)}
	waits := func(stage drain.Stage, message string) (next, error) {
		l.Stage = stage
		r.showDrain(r.drains.Set(at.ClusterUID, s.UID, l))
		r.tell(p, message)
		return goOn, nil
	}
	kept, err := r.keptByHome(ctx, p)
	now := r.Clock.Now()
	switch {
	case err != nil:
		return done, err
	case kept:
		return waits(drain.KeptByHome, fmt.Sprintf("%s is being drained; the session stays, for its home is there: save what you need, delete it and create it again with spec.freshHome", at.ClusterName))
	case status.FailedPermanently(s) != nil:
		return waits(drain.Failed, fmt.Sprintf("%s is being drained; the session stays until it is deleted, or tried again by spec.attempt", at.ClusterName))
	case at.Idle:
		r.depart(p, movedByDrain, fmt.Sprintf("%s is being drained: it is rescheduled when it is to run again", at.ClusterName))
		r.showDrain(r.drains.Drop(at.ClusterUID, s.UID))
		return r.place(ctx, p) // which says why it is placed nowhere
	case l.InUse && (d.Deadline.IsZero() || now.Before(d.Deadline)):
		p.again = backoff.Sooner(p.again, max(0, d.Deadline.Sub(now)))
		return waits(drain.InUse, inUseMessage(at.ClusterName, d))
	}
	return r.takeTurn(ctx, p, l)
}

// takeTurn moves a session that may go, if it is its turn and another member has
// room for it.
func (r *Reconciler) takeTurn(ctx context.Context, p *pass, l drain.Session) (next, error) {
	s := p.session
	at := s.Status.Placement
	turn, update := r.drains.Take(at.ClusterUID, s.UID, l)
	r.showDrain(update)
	if !turn {
		return goOn, nil // it is enqueued when its turn comes
	}
	decision, answered, err := r.another(ctx, p, isDrained, v1alpha1.ReasonDraining)
	if err != nil {
		return done, err
	}
	if !answered {
		return goOn, nil
	}
	if !decision.Placed {
		l.Stage = drain.NoCapacity
		r.showDrain(r.drains.Set(at.ClusterUID, s.UID, l))
		r.tell(p, fmt.Sprintf("%s is being drained; the session stays while no other member takes it: %s", at.ClusterName, decision.Message))
		return goOn, nil
	}
	r.depart(p, movedByDrain, fmt.Sprintf("%s is being drained: it goes to %s", at.ClusterName, decision.Cluster.Name))
	return done, nil
}

// isDrained is why a session is not placed again in a member that it leaves.
const isDrained = "Draining: it is being drained"

// inUse is whether somebody may lose something when the desktop is stopped: all
// are in use that do not tell that nobody uses them, and were ever ready.
func inUse(s *v1alpha1.VDISession) bool {
	return status.ToRun(s) && s.Status.IdleSince == nil && !neverRan(s)
}

func inUseMessage(cluster string, d member.Drain) string {
	if d.Deadline.IsZero() {
		return fmt.Sprintf("%s is being drained: once nobody uses the desktop it is stopped and restarted in another member; save your work", cluster)
	}
	return fmt.Sprintf("%s is being drained: the desktop is stopped and restarted in another member at %s, or once nobody uses it; save your work",
		cluster, d.Deadline.UTC().Format(time.RFC3339))
}

// depart gives up a placement in a member that goes on.
func (r *Reconciler) depart(p *pass, reason, message string) {
	s, held := p.session, p.session.Status.Placement
	r.giveUpPlace(p)
	s.Status.IdleSince = nil
	p.record(r, "Normal", v1alpha1.EventMoved, "Move", message)
	now := r.Clock.Now()
	p.events = append(p.events, func() {
		r.memory.Avoid(s.UID, held.ClusterUID, now)
		moved.WithLabelValues(reason).Inc()
	})
}

// tell a session's user that its member is drained, and what that means for it.
func (r *Reconciler) tell(p *pass, message string) {
	s := p.session
	before := scheduledReason(s)
	changed := v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDraining, Message: message,
	})
	if changed && before != v1alpha1.ReasonDraining {
		p.record(r, "Warning", v1alpha1.EventDraining, "Drain", message)
	}
}

// stay takes back what a user was told, where the draining was called off.
func (r *Reconciler) stay(p *pass) {
	s := p.session
	if scheduledReason(s) != v1alpha1.ReasonDraining {
		return
	}
	message := s.Status.Placement.ClusterName + ": it is placed there, and is not drained any more"
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPlaced, Message: message,
	})
	p.record(r, "Normal", v1alpha1.EventDraining, "Drain", message)
}

func scheduledReason(s *v1alpha1.VDISession) string {
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled); c != nil {
		return c.Reason
	}
	return ""
}

// rebalance moves a session that was asked to leave its member, if nobody uses it
// and another member has capacity, and otherwise says why it stays. The asking is
// done with then.
func (r *Reconciler) rebalance(ctx context.Context, p *pass) (next, error) {
	s := p.session
	at := s.Status.Placement
	from, asked := s.Annotations[v1alpha1.AnnotationMove]
	switch {
	case !asked:
		return goOn, nil
	case from != at.ClusterName:
		return r.asked(ctx, p, "") // it has left
	case r.Fleet.HealthOf(at.ClusterUID) != health.Ready:
		return r.asked(ctx, p, at.ClusterName+" could not confirm its stop now: see the member's condition Ready")
	case status.FailedPermanently(s) != nil:
		return r.asked(ctx, p, "it has failed where it is: raise spec.attempt to try it again")
	case inUse(s):
		return r.asked(ctx, p, "it is in use, or does not report whether it is")
	}
	kept, err := r.keptByHome(ctx, p)
	if err != nil {
		return done, err
	}
	if kept {
		return r.asked(ctx, p, "its home is in "+at.ClusterName)
	}
	decision, answered, err := r.another(ctx, p, memory.WasLeft, movedByRebalance)
	if err != nil {
		return done, err
	}
	if !answered {
		return goOn, nil
	}
	if !decision.Placed {
		r.Fleet.Release(s.UID)
		return r.asked(ctx, p, "no other member takes it: "+decision.Message)
	}
	r.depart(p, movedByRebalance, fmt.Sprintf("it was asked to leave %s: it goes to %s", at.ClusterName, decision.Cluster.Name))
	return done, nil
}

// asked takes the annotation away that asked a session to leave its member. why
// it stays is told; empty: it does not. Nothing else is written in this pass.
func (r *Reconciler) asked(ctx context.Context, p *pass, why string) (next, error) {
	after := &v1alpha1.VDISession{}
	p.session.ObjectMeta.DeepCopyInto(&after.ObjectMeta)
	before := after.DeepCopy()
	delete(after.Annotations, v1alpha1.AnnotationMove)
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return done, client.IgnoreNotFound(fmt.Errorf("taking away the annotation %s: %w", v1alpha1.AnnotationMove, err))
	}
	r.memory.Wrote(after)
	if why != "" {
		r.Recorder.Eventf(p.session, nil, "Normal", v1alpha1.EventNotMoved, "Move", "%s", truncate(why))
	}
	p.hold = true
	return done, nil
}
