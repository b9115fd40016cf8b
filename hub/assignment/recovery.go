package assignment

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// RecoveryPoll is how often it is checked whether a recovery has ended.
const RecoveryPoll = time.Second

// InRecovery returns the permitted part of a step while the hub waits for its members'
// reports after a restore, and whether to check again: no desktop is started, and none is
// stopped that the hub has not released.
func InRecovery(recovering bool, s *v1alpha1.VDISession, member v1alpha1.ClusterRef, reported *v1alpha1.SessionAssignment, next Step) (Step, bool) {
	if !recovering || s == nil || next != Assign && next != Resend && next != Withdraw {
		return next, false
	}
	w := status.DesiredIn(s, member.UID)
	switch {
	case next != Withdraw && reported != nil && reported.Spec.Epoch == w.Epoch:
		return Mirror, true
	case next == Withdraw && w.Stop && status.SupersededIn(s, member.UID) == nil:
		return next, false
	}
	return None, true
}

// UsedUp reports whether a member does not have a placement from the backup, so that its
// epoch may have ended there. lastAssigned is the result of Sessions.LastAssigned.
func UsedUp(reported *v1alpha1.SessionAssignment, lastAssigned, epoch int64) bool {
	return (reported == nil || status.Ended(reported)) && lastAssigned >= epoch
}
