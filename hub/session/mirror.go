package session

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// DefaultIdleAfter is how long a desktop is unused before its agent reports it as idle.
const DefaultIdleAfter = 5 * time.Minute

// mirror copies the report of the session's member into its status, if the member has the
// desired assignment. While the member is not connected the status shows its last report.
func (r *Reconciler) mirror(ctx context.Context, p *pass) (next, error) {
	rep := p.reportOfPlacement()
	if rep == nil {
		return goOn, nil
	}
	order, err := r.order(ctx, p.before, rep.Ref)
	if denied.Is(err) {
		err = &secret.NotAssignableError{Reason: v1alpha1.ReasonWriteDenied, Message: denied.Explain(err)}
	}
	var unfit *secret.NotAssignableError
	switch {
	case errors.As(err, &unfit):
		r.showUnfit(p, unfit)
		return goOn, nil
	case err != nil:
		return done, err
	}
	step, _ := assignment.Plan(p.before, rep.Ref.UID, rep.Assignment, order.Hash)
	step, waits := assignment.InRecovery(r.Fleet.Recovering(), p.before, rep.Ref, rep.Assignment, step)
	if waits {
		p.again = backoff.Sooner(p.again, assignment.RecoveryPoll)
	}
	switch step {
	case assignment.Assign:
		if !assignment.UsedUp(rep.Assignment, r.LastGiven(p.before), order.Assignment.Spec.Epoch) {
			return goOn, nil
		}
		if _, moved := r.claimed(p.before); moved {
			p.again = backoff.Sooner(p.again, assignment.RecoveryPoll) // it is taken over
			return goOn, nil
		}
		r.reissue(ctx, p, rep)
		return done, nil
	case assignment.Mirror, assignment.Resend:
		return goOn, r.mirrorReport(ctx, p, rep.Assignment, order)
	}
	return goOn, nil
}

// order renders the session's assignment, once the session has its access secret.
func (r *Reconciler) order(ctx context.Context, s *v1alpha1.VDISession, ref v1alpha1.ClusterRef) (*assignment.Order, error) {
	if err := r.Orders.Check(s); err != nil {
		return nil, err
	}
	spec, err := r.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil {
		return nil, err
	}
	if err := r.Orders.Secrets.Keep(ctx, s, spec); err != nil {
		return nil, err
	}
	return r.Orders.For(ctx, s, ref)
}

// mirrorReport writes a report into the status. A change of the session's spec comes first:
// its write enqueues the session again.
func (r *Reconciler) mirrorReport(ctx context.Context, p *pass, reported *v1alpha1.SessionAssignment, order *assignment.Order) error {
	if err := r.releaseHome(ctx, p.before, reported, order.Hash); err != nil {
		return err
	}
	before, s, now := p.before, p.session, r.Clock.Now()
	if before.Status.ObservedGeneration != before.Generation {
		return nil
	}
	stored := reported.Annotations[v1alpha1.AnnotationSpecHash] == order.Hash
	status.Mirror(s, order.Spec, reported, stored, order.URL, now)
	status.MirrorIdle(s, reported, now, r.idleAfter())
	s.Status.AccessSecretName = secret.AccessName(s, order.Spec)
	if equality.Semantic.DeepEqual(before.Status, s.Status) {
		return nil
	}
	if p.settles = status.HoldBack(before, s, now); p.settles > 0 {
		p.mirrored = s.Status.DeepCopy()
	}
	p.events = append(p.events, func() { r.traceMirrored(before, s, now) })
	if before.Status.StartTime == nil && s.Status.StartTime != nil {
		p.events = append(p.events, func() { startSeconds.Observe(now.Sub(s.CreationTimestamp.Time).Seconds()) })
		p.record(r, "Normal", v1alpha1.EventRunning, "Start", "running in "+s.Status.Placement.ClusterName+" at "+s.Status.URL)
	}
	if f := s.Status.LastFailover; f != nil && f.RecoveredTime != nil && before.Status.LastFailover.RecoveredTime == nil {
		p.events = append(p.events, func() { recovery.Observe(max(0, now.Sub(f.Time.Time).Seconds())) })
	}
	return nil
}

// reportOfPlacement returns the report of the member in which the session is placed, or nil
// if that is not connected.
func (p *pass) reportOfPlacement() *assignment.Report {
	at := p.session.Status.Placement
	if at == nil {
		return nil
	}
	for i := range p.reports {
		if p.reports[i].Ref.UID == at.ClusterUID {
			return &p.reports[i]
		}
	}
	return nil
}

// settling reports whether all changes of a pass may be written later, and when.
func (p *pass) settling() (time.Duration, bool) {
	return p.settles, p.settles > 0 && equality.Semantic.DeepEqual(*p.mirrored, p.session.Status)
}

// showUnfit shows on the session why it can't be assigned, and checks again later: the
// remedy may be in nothing that the hub watches.
func (r *Reconciler) showUnfit(p *pass, why *secret.NotAssignableError) {
	s := p.session
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: why.Reason, Message: why.Message,
	})
	p.again = backoff.Sooner(p.again, scheduling.DefaultRecheckAfter)
}

func (r *Reconciler) idleAfter() time.Duration {
	if r.IdleAfter > 0 {
		return r.IdleAfter
	}
	return DefaultIdleAfter
}
