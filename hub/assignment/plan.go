package assignment

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Step is what to do about one assignment of one member.
type Step string

// The steps, in the order in which Plan considers them.
const (
	// None: both sides agree that there is nothing.
	None Step = "None"
	// Forget: the member's end is recorded or concerns nobody: drop it.
	Forget Step = "Forget"
	// Orphan: the member runs a session that the hub does not know, or not to
	// have been given to it.
	Orphan Step = "Orphan"
	// Adopt: the member has an epoch that this hub has forgotten to have given.
	Adopt Step = "Adopt"
	// RecordStopped: the member confirms that nothing runs any more.
	RecordStopped Step = "RecordStopped"
	// RecordRefused: the member would not store the placement.
	RecordRefused Step = "RecordRefused"
	// Withdraw: the member must stop what it has.
	Withdraw Step = "Withdraw"
	// Assign: the member must store what the session's status says.
	Assign Step = "Assign"
	// Resend: the member has what it should but for Secrets that go with it;
	// show its status and send them again.
	Resend Step = "Resend"
	// Mirror: the member has what it should; show its status.
	Mirror Step = "Mirror"
)

// Plan says what to do about one assignment of one member, and up to which
// epoch where that matters. s is nil where the hub has no such session,
// reported is nil where the member reports nothing, and hash is that of the
// assignment that s asks for. Both are as Own leaves them: what is reported of
// a session was given to the member.
//
// That a member reports nothing never means that nothing is on its way there:
// what is not wanted is withdrawn all the same.
func Plan(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment, hash string) (Step, int64) {
	if s == nil {
		return planUnknown(reported)
	}
	w := status.DesiredIn(s, member)
	if reported != nil && reported.Spec.Epoch > s.Status.Epoch {
		return Adopt, reported.Spec.Epoch
	}
	switch {
	case w.Stop:
		return planStop(w, reported)
	case w.Run:
		return planRun(w, reported, hash)
	case reported == nil:
		return None, 0
	case status.Ended(reported):
		return Forget, reported.Spec.Epoch
	default:
		return Withdraw, reported.Spec.Epoch
	}
}

func planUnknown(reported *v1alpha1.SessionAssignment) (Step, int64) {
	switch {
	case reported == nil:
		return None, 0
	case status.Ended(reported):
		return Forget, reported.Spec.Epoch
	default:
		return Orphan, reported.Spec.Epoch
	}
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
		// It refused the placement and runs an earlier one: that has to stop,
		// and with it goes the placement.
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
