package lifecycle

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// NeedsOrder reports whether a member's report has to be compared with the desired assignment.
func NeedsOrder(s *v1alpha1.VDISession, rep *assignment.Report) bool {
	step, _ := assignment.Plan(s, rep.Ref.UID, rep.Assignment, "")
	return step == assignment.Assign || step == assignment.Mirror || step == assignment.Resend
}

// ReportOfPlacement returns the report of the member in which a session is placed, or nil if
// that is not connected.
func ReportOfPlacement(s *v1alpha1.VDISession, reports []*assignment.Report) *assignment.Report {
	at := s.Status.Placement
	if at == nil {
		return nil
	}
	for _, rep := range reports {
		if rep.Ref.UID == at.ClusterUID {
			return rep
		}
	}
	return nil
}

// mirror copies the report of the session's member into its status, if the member has the
// desired assignment. While the member is not connected the status shows its last report.
func mirror(p *pass) next {
	before, order := p.in.Session, p.in.Order
	rep := ReportOfPlacement(p.Session, p.in.Reports)
	var unfit *secret.NotAssignableError
	switch {
	case rep == nil:
		return proceed
	case errors.As(p.in.NoOrder, &unfit):
		showUnfit(p, unfit)
		return proceed
	case p.in.NoOrder != nil:
		p.Err = p.in.NoOrder
		return done
	case order == nil:
		return proceed
	}
	step, _ := assignment.Plan(before, rep.Ref.UID, rep.Assignment, order.Hash)
	step, waits := assignment.InRecovery(p.in.Restore.Recovering, before, rep.Ref, rep.Assignment, step)
	if waits {
		p.soon(assignment.RecoveryPoll)
	}
	switch step {
	case assignment.Assign:
		if !assignment.UsedUp(rep.Assignment, p.in.Restore.LastAssigned, order.Assignment.Spec.Epoch) {
			return proceed
		}
		if _, moved := claimed(p); moved {
			p.soon(assignment.RecoveryPoll) // it is adopted
			return proceed
		}
		reissue(p, rep)
		return done
	case assignment.Mirror, assignment.Resend:
		mirrorReport(p, rep.Assignment, order)
	}
	return proceed
}

// mirrorReport writes a report into the status. A change of the session's spec comes first:
// its write enqueues the session again.
func mirrorReport(p *pass, reported *v1alpha1.SessionAssignment, order *assignment.Order) {
	p.FreeHome = freesHome(p, reported)
	before, s, now := p.in.Session, p.Session, p.in.Now
	if before.Status.ObservedGeneration != before.Generation {
		return
	}
	stored := reported.Annotations[v1alpha1.AnnotationSpecHash] == order.Hash
	status.Mirror(s, order.Spec, reported, stored, order.URL, now)
	status.MirrorIdle(s, reported, now, p.in.Timings.IdleAfter)
	s.Status.AccessSecretName = secret.AccessName(s, order.Spec)
	p.address()
	if equality.Semantic.DeepEqual(before.Status, s.Status) {
		return
	}
	if p.Settle = status.HoldBack(before, s, now); p.Settle > 0 {
		p.mirrored = s.Status.DeepCopy()
	}
	p.Mirrored = true
	if before.Status.StartTime == nil && s.Status.StartTime != nil {
		p.normal(v1alpha1.EventRunning, "Start", "running in "+s.Status.Placement.ClusterName+" at "+s.Status.URL)
	}
}

// showUnfit shows on the session why it can't be assigned, and checks again later: the
// hub may not watch the object of the remedy.
func showUnfit(p *pass, why *secret.NotAssignableError) {
	s := p.Session
	status.SetFalse(s, v1alpha1.ConditionAssigned, why.Reason, why.Message)
	p.soon(scheduling.DefaultRecheckAfter)
}

// reissue releases a placement from the backup of which the member has no copy. The member
// confirms that, and the session is placed under a new epoch.
func reissue(p *pass, rep *assignment.Report) {
	epoch := p.Session.Status.Placement.Epoch
	releasePlacement(p.Session)
	p.log("A placement from the hub's backup is not in its member any more; the session is placed under a new epoch", "member", rep.Ref.Name, "epoch", epoch)
}
