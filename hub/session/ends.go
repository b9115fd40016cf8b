package session

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// recordEnds records that a member has confirmed a stop, or has refused a placement.
func (r *Reconciler) recordEnds(_ context.Context, p *pass) (next, error) {
	for i := range p.reports {
		rep := &p.reports[i]
		switch step, epoch := assignment.Plan(p.session, rep.Ref.UID, rep.Assignment, ""); step {
		case assignment.RecordStopped:
			r.recordStopped(p, rep, epoch)
			return done, nil
		case assignment.RecordRefused:
			r.recordRefused(p, rep)
			return done, nil
		}
	}
	return goOn, nil
}

// recordStopped records that nothing up to an epoch runs in a member any more: it removes
// the release, and a placement that ended without an order, so that the session is
// rescheduled.
func (r *Reconciler) recordStopped(p *pass, rep *assignment.Report, epoch int64) {
	s := p.session
	left := status.SupersededIn(s, rep.Ref).DeepCopy()
	status.ConfirmStopped(s, rep.Ref.UID, epoch)
	if s.Status.Placement == nil {
		status.EndStoppedRun(s, rep.Assignment, r.Clock.Now())
	}
	if left != nil {
		p.record(r, "Normal", v1alpha1.EventHealed, "Heal", healedNote(left))
		return
	}
	if s.Status.Placement == nil && s.DeletionTimestamp.IsZero() {
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
			Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReleasing,
			Message: "its assignment ended in its member: it is rescheduled",
		})
		s.Status.Conditions = status.DropAgentConditions(s.Status.Conditions)
	}
}

// healedNote describes the stop of what was left behind in a member.
func healedNote(o *v1alpha1.Release) string {
	note := fmt.Sprintf("its copy of epoch %d that was left behind in %s is stopped", o.Epoch, o.ClusterName)
	if o.HomeClaimName != "" {
		note += fmt.Sprintf("; its home there was claim %s", o.HomeClaimName)
	}
	return note
}

// recordRefused removes a placement that the member did not store: nothing of it runs, so
// the session may be placed elsewhere at once.
func (r *Reconciler) recordRefused(p *pass, rep *assignment.Report) {
	s, reported := p.session, rep.Assignment
	pauses := r.memory.Refuse(s.UID, rep.Ref.UID, s.Status.Placement.Epoch, reported.Status.Reason, reported.Status.Message, r.Clock.Now())
	message := fmt.Sprintf("%s refused it: %s: %s", s.Status.Placement.ClusterName, reported.Status.Reason, reported.Status.Message)
	if pauses {
		message += fmt.Sprintf("; %d or more in a row have refused it, and it is tried again after a pause", memory.RefusalStreak)
	}
	s.Status.Placement, s.Status.URL, s.Status.IdleSince = nil, "", nil
	for _, c := range []metav1.Condition{
		{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRefused, Message: message},
		{Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRefused, Message: message},
	} {
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, c)
	}
	p.events = append(p.events, func() { placements.WithLabelValues("refused").Inc() })
	p.record(r, "Warning", v1alpha1.EventRefused, "Assign", message)
}
