package assignment

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Step is the action on one assignment of one member.
type Step string

// The steps, in the order in which Plan considers them.
const (
	// None means that there is no assignment, and that none is desired.
	None Step = "None"
	// Forget drops an end that is recorded, or that belongs to no session.
	Forget Step = "Forget"
	// Orphan means that the hub has no session for the assignment, or did not assign it to
	// this member.
	Orphan Step = "Orphan"
	// Adopt means that the member has an epoch that this hub has lost.
	Adopt Step = "Adopt"
	// RecordStopped means that the member confirms that nothing runs any more.
	RecordStopped Step = "RecordStopped"
	// RecordRefused means that the member has refused the placement.
	RecordRefused Step = "RecordRefused"
	// Withdraw means that the member must stop the assignment.
	Withdraw Step = "Withdraw"
	// Assign means that the member must store the session's desired state.
	Assign Step = "Assign"
	// Resend mirrors the status of a member that lacks Secrets of the assignment, and sends
	// them again.
	Resend Step = "Resend"
	// Mirror mirrors the status of a member that has the desired state.
	Mirror Step = "Mirror"
)

// Plan returns the step for one assignment of one member, and the epoch that it is about,
// if any. s is nil if the hub has no such session, reported if the member reports none;
// both are from Attribute. hash is that of the session's desired assignment.
//
// A member that reports nothing may still receive an earlier order: an assignment that must
// stop is withdrawn all the same.
func Plan(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment, hash string) (Step, int64) {
	surplus := Orphan
	if s != nil {
		w := status.DesiredIn(s, member)
		switch {
		case reported != nil && reported.Spec.Epoch > s.Status.Epoch:
			return Adopt, reported.Spec.Epoch
		case w.Stop:
			return planStop(w, reported)
		case w.Run:
			return planRun(w, reported, hash)
		}
		surplus = Withdraw
	}
	switch {
	case reported == nil:
		return None, 0
	case status.Ended(reported):
		return Forget, reported.Spec.Epoch
	}
	return surplus, reported.Spec.Epoch
}

func planStop(w status.Desired, reported *v1alpha1.SessionAssignment) (Step, int64) {
	if reported != nil && status.Ended(reported) && reported.Spec.Epoch >= w.StopEpoch {
		return RecordStopped, w.StopEpoch
	}
	return Withdraw, w.StopEpoch
}

func planRun(w status.Desired, reported *v1alpha1.SessionAssignment, hash string) (Step, int64) {
	switch {
	case reported != nil && reported.Spec.Epoch < w.Epoch && !status.Ended(reported) && status.ReportsRefusal(reported):
		// It refused the placement and runs an earlier one, which has to stop; the
		// placement ends with it.
		return Withdraw, w.Epoch
	case reported == nil, reported.Spec.Epoch < w.Epoch:
		return Assign, w.Epoch
	case reported.Status.State == v1alpha1.AssignmentStopped:
		return RecordStopped, w.Epoch
	case reported.Status.State == v1alpha1.AssignmentRefused:
		return RecordRefused, w.Epoch
	case reported.Status.State == v1alpha1.AssignmentStopping:
		return Mirror, w.Epoch
	case reported.Annotations[v1alpha1.AnnotationSpecHash] != hash && !status.ReportsRefusal(reported):
		return Assign, w.Epoch
	case len(reported.Status.MissingSecrets) > 0:
		return Resend, w.Epoch
	default:
		return Mirror, w.Epoch
	}
}

// causeless reports whether no durable record gives a cause for a member to stop an
// assignment of a session: the session is not being deleted, was not released there, and
// has no later epoch.
func causeless(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment) bool {
	if s == nil || reported == nil || !s.DeletionTimestamp.IsZero() {
		return false
	}
	w := status.DesiredIn(s, member)
	return !w.Stop && !w.Run && reported.Spec.Epoch >= s.Status.Epoch
}
