package lifecycle

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// end shows that a session is Terminating, and has its finalizer removed once no member may
// still run it, or an operator forces that.
func end(p *pass) {
	p.Found = true
	if adopt(p) == proceed {
		confirmStops(p)
		wait, forced := forced(p)
		switch {
		case len(status.Outstanding(p.Session)) == 0:
			p.End = true
			return
		case forced && wait == 0:
			p.End, p.Forced = true, true
			return
		}
		p.Again = wait
		showUnreachable(p)
		showStopping(p)
	}
	status.Summarize(p.Session, nil, p.in.Now)
}

// confirmStops removes placements whose stop is confirmed or can't be confirmed any more.
func confirmStops(p *pass) {
	s := p.Session
	for _, rep := range p.in.Reports {
		if step, epoch := assignment.Plan(s, rep.Ref.UID, rep.Assignment, ""); step == assignment.RecordStopped {
			recordStopped(p, rep, epoch)
			p.Stopped = true
		}
	}
	removeGone(p)
	switch at := s.Status.Placement; {
	case at == nil:
	case p.in.gone(at.ClusterUID):
		s.Status.Placement = nil
	case DeclaredFenced(p.in.Members[at.ClusterUID].Failover):
		// Releasing the placement allows the member to be removed; until then the
		// release records what may remain there.
		status.Supersede(s)
		s.Status.Placement = nil
	}
}

// DeclaredFenced reports whether an operator declared a member fenced.
func DeclaredFenced(member failover.Decider) bool {
	return decideFailover(member, failover.Session{Mode: v1alpha1.FailoverHold}).Reason == v1alpha1.ReasonMemberFenced
}

// forced reports whether an operator forces the cleanup of a session, and how long its
// members still have to confirm it: zero if none of them can.
func forced(p *pass) (time.Duration, bool) {
	if p.in.Known.ForcedSince.IsZero() {
		return 0, false
	}
	left := p.in.Known.ForcedSince.Add(p.in.Timings.ForceAfter).Sub(p.in.Now)
	for _, o := range status.Outstanding(p.Session) {
		if p.in.Members[o.ClusterUID].Health != health.Unreachable {
			return max(0, left), true
		}
	}
	return 0, true
}

// showUnreachable shows on a deleted session that one of its members is unreachable,
// with the remedy.
func showUnreachable(p *pass) {
	s, away := p.Session, ""
	for _, o := range status.Outstanding(s) {
		if p.in.Members[o.ClusterUID].Health == health.Unreachable {
			away = o.ClusterName
		}
	}
	shown := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned)
	switch {
	case away != "":
		status.SetUnknown(s, v1alpha1.ConditionAssigned, v1alpha1.ReasonMemberUnreachable,
			fmt.Sprintf("%s is unreachable: once it is back it stops the desktop; to delete the session without that, annotate it with %s=<why>", away, v1alpha1.AnnotationForceCleanup))
	case shown != nil && (shown.Reason == v1alpha1.ReasonMemberUnreachable || shown.Reason == v1alpha1.ReasonFailoverPending):
		v1alpha1.RemoveCondition(&s.Status.Conditions, v1alpha1.ConditionAssigned)
	}
}

// stoppingSettles is how long after its deletion a session does not show what its
// member still waits for: most sessions have ended by then.
const stoppingSettles = 3 * time.Second

// showStopping shows on a deleted session what a member still waits for.
func showStopping(p *pass) {
	s := p.Session
	for _, rep := range p.in.Reports {
		reported := rep.Assignment
		if reported == nil || reported.Status.State != v1alpha1.AssignmentStopping || reported.Status.Message == "" {
			continue
		}
		if wait := s.DeletionTimestamp.Add(stoppingSettles).Sub(p.in.Now); wait > 0 {
			p.soon(wait)
			continue
		}
		status.SetFalse(s, v1alpha1.ConditionAssigned, v1alpha1.ReasonPodTerminating, rep.Ref.Name+": "+reported.Status.Message)
	}
}
