package lifecycle

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// recordEnds records that a member has confirmed a stop, or has refused a placement.
func recordEnds(p *pass) next {
	for _, rep := range p.in.Reports {
		switch step, epoch := assignment.Plan(p.Session, rep.Ref.UID, rep.Assignment, ""); step {
		case assignment.RecordStopped:
			recordStopped(p, rep, epoch)
			return done
		case assignment.RecordRefused:
			recordRefused(p, rep)
			return done
		}
	}
	return proceed
}

// recordStopped records that nothing up to an epoch runs in a member any more: it removes
// the release, and a placement that ended without an order, so that the session is
// rescheduled.
func recordStopped(p *pass, rep *assignment.Report, epoch int64) {
	s := p.Session
	left := status.SupersededIn(s, rep.Ref.UID).DeepCopy()
	status.ConfirmStopped(s, rep.Ref.UID, epoch)
	if s.Status.Placement == nil {
		status.EndStoppedRun(s, rep.Assignment, p.in.Now)
	}
	if left != nil {
		p.normal(v1alpha1.EventHealed, "Heal", cleanupNote(left))
		return
	}
	if s.Status.Placement == nil && s.DeletionTimestamp.IsZero() {
		status.SetFalse(s, v1alpha1.ConditionScheduled, v1alpha1.ReasonReleasing, "its assignment ended in its member: it is rescheduled")
		s.Status.Conditions = status.DropAgentConditions(s.Status.Conditions)
	}
}

// cleanupNote describes the stop of what was left behind in a member.
func cleanupNote(o *v1alpha1.Release) string {
	note := fmt.Sprintf("its copy of epoch %d that was left behind in %s is stopped", o.Epoch, o.ClusterName)
	if o.HomeClaimName != "" {
		note += fmt.Sprintf("; its home there was claim %s", o.HomeClaimName)
	}
	return note
}

// recordRefused removes a placement that the member did not store: nothing of it runs, so
// the session may be placed elsewhere at once.
func recordRefused(p *pass, rep *assignment.Report) {
	s, reported := p.Session, rep.Assignment
	at := s.Status.Placement
	p.Refused = reported
	message := fmt.Sprintf("%s refused it: %s: %s", at.ClusterName, reported.Status.Reason, reported.Status.Message)
	if p.in.Known.PauseNext {
		message += fmt.Sprintf("; %d or more in a row have refused it, and it is retried after a pause", memory.RefusalStreak)
	}
	s.Status.Placement, s.Status.Endpoint, s.Status.IdleSince = nil, nil, nil
	status.SetFalse(s, v1alpha1.ConditionScheduled, v1alpha1.ReasonRefused, message)
	status.SetFalse(s, v1alpha1.ConditionAssigned, v1alpha1.ReasonRefused, message)
	p.Result = ResultRefused
	p.warn(v1alpha1.EventRefused, "Assign", message)
}
