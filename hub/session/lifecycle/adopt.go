package lifecycle

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// ShowsRestore reports whether a report proves an epoch that this hub never assigned,
// which shows that the hub was restored from an older state.
func ShowsRestore(s *v1alpha1.VDISession, rep *assignment.Report) bool {
	return rep.Unknown(s) || rep.AssignedTwice(s)
}

// adopt adopts an epoch that a member proves and that this hub never assigned: the hub
// was restored from an older state.
func adopt(p *pass) next {
	for _, rep := range p.in.Reports {
		switch {
		case !ShowsRestore(p.Session, rep):
			continue
		case rep.Unknown(p.Session):
			adoptFrom(p, rep)
			return done
		case !p.Session.DeletionTimestamp.IsZero():
			status.AddRelease(p.Session, rep.Ref, rep.Assignment.Spec.Epoch)
			return done
		}
		// A copy that this leader has placed elsewhere since is the newer one, and is
		// stopped. If an earlier leader placed it, it is unknown which copy is in use,
		// and the placement stays.
		if p.in.Known.LastEpoch == rep.Assignment.Spec.Epoch {
			adoptPlacement(p, rep, p.in.nextEpoch(p.Session))
			return done
		}
	}
	return proceed
}

// adoptFrom adopts a member's copy. A copy that is Active becomes the placement under
// its own epoch, so that its desktop continues unchanged; the hub's earlier placement
// elsewhere is stopped. If the copy is stopping, or the session is being deleted, the
// hub waits for the stop. If the copy has ended, only its epoch is adopted.
func adoptFrom(p *pass, rep *assignment.Report) {
	s, epoch := p.Session, rep.Assignment.Spec.Epoch
	switch at := s.Status.Placement; {
	case status.Ended(rep.Assignment):
	case at != nil && at.ClusterUID == rep.Ref.UID:
		at.Epoch = epoch
		account(p, rep, at)
	case !s.DeletionTimestamp.IsZero() || rep.Assignment.Status.State != v1alpha1.AssignmentActive:
		status.AddRelease(s, rep.Ref, epoch)
	default:
		adoptPlacement(p, rep, epoch)
		return
	}
	s.Status.Epoch = epoch
}

// adoptPlacement makes a copy that runs in a member the session's placement. The hub's own
// placement of the session elsewhere is released.
func adoptPlacement(p *pass, rep *assignment.Report, epoch int64) {
	if resolve(p) == done {
		return
	}
	if p.spec == nil {
		// The session's conditions report that it has no template. Its desktop continues.
		p.Hold, p.Again = true, memory.StaleWait
		return
	}
	replace(p, rep, epoch)
	findHomeThere(p, rep)
	// The reservation of a decision that was not written yet is released.
	p.Release = true
	account(p, rep, p.Session.Status.Placement)
	p.log("Adopted a copy that a member runs and this hub did not place", "member", rep.Ref.Name, "epoch", rep.Assignment.Spec.Epoch)
	p.normal(v1alpha1.EventPlaced, "Place", p.Decision.Message)
}

// account accounts for the capacity of an adopted copy: it is reserved for a copy that has not
// started, and counted by the member for one that runs.
func account(p *pass, rep *assignment.Report, at *v1alpha1.Placement) {
	p.Counted = at.Epoch == rep.Assignment.Spec.Epoch && !status.ReportsIdle(rep.Assignment)
	p.Reserve = !p.Counted && !at.Idle
}

// replace writes the placement in the reporting member into the status.
func replace(p *pass, rep *assignment.Report, epoch int64) {
	s := p.Session
	policy, _ := p.in.Policies.Governing(s)
	p.resources = s.Status.Resources
	if s.Status.Placement == nil {
		p.resources = p.spec.Resources.For(s.Spec.Resources)
	}
	status.RemoveRelease(s, rep.Ref.UID)
	if at := s.Status.Placement; at != nil {
		status.AddRelease(s, refOf(at), at.Epoch)
	}
	at := p.placed(placement.Decision{
		Placed: true, Cluster: rep.Ref, Region: p.in.Members[rep.Ref.UID].Spec.Region, Reason: v1alpha1.ReasonPlaced,
		Message: fmt.Sprintf("%s: it runs the session under epoch %d, which was assigned before the hub was restored from a backup", rep.Ref.Name, rep.Assignment.Spec.Epoch),
	}, policy, epoch, status.FailoverFor(s, p.spec, policy).Mode)
	at.Idle = status.ReportsIdle(rep.Assignment)
}

// findHomeThere finds the record of a user's home that the write of the placement must
// update: the home may have moved since the backup. A record that another session has
// claimed is left unchanged.
func findHomeThere(p *pass, rep *assignment.Report) {
	p.home = homeStep{}
	if !status.ToRun(p.Session) || p.spec.Home.Mode != v1alpha1.HomePerUser || p.in.Home == nil {
		return
	}
	if record := p.in.Home; home.InUse(p.Session, record) != "" {
		p.log("The home of an adopted session belongs to another session by the hub's record", "home", record.Name, "by", record.Status.MountedBy)
		p.home.othersRecord = true
	} else {
		p.home.Record, p.home.Movable = record, record.Spec.ClusterUID != rep.Ref.UID
	}
}

// claimed returns the decision not to place a session while a member reports a later
// copy of it than the hub has: that copy is adopted.
func claimed(p *pass) (placement.Decision, bool) {
	member := p.in.Restore.Claim
	if member == "" || !p.in.fromBackup(p.Session) {
		return placement.Decision{}, false
	}
	return placement.Decision{Reason: v1alpha1.ReasonHubRestored, Message: fmt.Sprintf(
		"the hub was restored from a backup, and %s reports a copy that was placed since: it is adopted", member)}, true
}

// awaitsReports returns why a restored hub does not place a session of mode Hold yet: a
// member that has not reported may run it, and only its report or an operator can rule
// that out. Sessions of other modes are placed after Timings.Recovery. Until then all
// sessions show the same message, so that no report causes a write.
func awaitsReports(p *pass, mode v1alpha1.FailoverMode) string {
	r := &p.in.Restore
	if mode != v1alpha1.FailoverHold || !p.in.fromBackup(p.Session) || r.Recovering || len(r.Unreported) == 0 {
		return ""
	}
	return fmt.Sprintf("the hub was restored from a backup, and %s may run the session (mode Hold): reconnect it, or declare it fenced once nothing runs there", r.Unreported[0])
}
