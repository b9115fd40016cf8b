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

// Reasons of moves from a healthy member, as label values of the metric.
const (
	movedByDrain     = "Drain"
	movedByRebalance = "Rebalance"
)

// leave moves a session out of a member that an operator drains, or that the operator wants
// it to leave. A session whose desktop is not to run, or is idle, is moved at once; one in
// use at the deadline of the drain. Capacity elsewhere is reserved first, within the
// operator's drain budget. A session whose home is there stays.
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

// showDrain publishes the progress of a member's drain, and enqueues the sessions that the
// budget now allows to move.
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

// drain handles one session of a draining member.
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
		return r.place(ctx, p) // which explains why it is not placed
	case l.InUse && (d.Deadline.IsZero() || now.Before(d.Deadline)):
		p.again = backoff.Sooner(p.again, max(0, d.Deadline.Sub(now)))
		return waits(drain.InUse, inUseMessage(at.ClusterName, d))
	}
	return r.takeTurn(ctx, p, l)
}

// takeTurn moves a session if the drain budget allows it and another member has capacity.
func (r *Reconciler) takeTurn(ctx context.Context, p *pass, l drain.Session) (next, error) {
	s := p.session
	at := s.Status.Placement
	turn, update := r.drains.Take(at.ClusterUID, s.UID, l)
	r.showDrain(update)
	if !turn {
		return goOn, nil // it is enqueued when the budget allows it
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

// isDrained is the reason not to place a session again in the member that it leaves.
const isDrained = "Draining: it is being drained"

// inUse reports whether stopping the desktop may lose work: a desktop counts as in use if
// it was ever ready and does not report that it is idle.
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

// depart releases a placement in a member that remains in the fleet.
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

// tell shows on a session that its member is being drained, and the consequence for it.
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

// stay reverts the condition after a drain was canceled.
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

// rebalance moves a session that was asked to leave its member, if it is not in use and
// another member has capacity, and otherwise records why it stays. That completes the
// request.
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

// asked removes the annotation that asked a session to leave its member. why is the reason
// to stay, for an event; empty: it leaves. Nothing else is written in this pass.
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
