package session

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// step is what to do about one assignment of one member.
type step string

// The steps, in the order in which plan considers them.
const (
	// stepNone: both sides agree that there is nothing.
	stepNone step = "None"
	// stepForget: the member's end is recorded or concerns nobody: drop it.
	stepForget step = "Forget"
	// stepOrphan: the member runs a session that the hub does not know, or not to
	// have been given to it.
	stepOrphan step = "Orphan"
	// stepAdopt: the member has an epoch that this hub has forgotten to have given.
	stepAdopt step = "Adopt"
	// stepRecordStopped: the member confirms that nothing runs any more.
	stepRecordStopped step = "RecordStopped"
	// stepRecordRefused: the member would not store the placement.
	stepRecordRefused step = "RecordRefused"
	// stepWithdraw: the member must stop what it has.
	stepWithdraw step = "Withdraw"
	// stepAssign: the member must store what the session's status says.
	stepAssign step = "Assign"
	// stepResend: the member has what it should but for Secrets that go with it;
	// show its status and send them again.
	stepResend step = "Resend"
	// stepMirror: the member has what it should; show its status.
	stepMirror step = "Mirror"
)

// plan says what to do about one assignment of one member, and up to which
// epoch where that matters. s is nil where the hub has no such session,
// reported is nil where the member reports nothing, and hash is that of the
// assignment that s asks for. Both are as ownOf leaves them: what is reported of
// a session was given to the member.
//
// That a member reports nothing never means that nothing is on its way there:
// what is not wanted is withdrawn all the same.
func plan(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment, hash string) (step, int64) {
	if s == nil {
		return planUnknown(reported)
	}
	w := status.DesiredIn(s, member)
	if reported != nil && reported.Spec.Epoch > s.Status.Epoch {
		return stepAdopt, reported.Spec.Epoch
	}
	switch {
	case w.Stop:
		return planStop(w, reported)
	case w.Run:
		return planRun(w, reported, hash)
	case reported == nil:
		return stepNone, 0
	case status.Ended(reported):
		return stepForget, reported.Spec.Epoch
	default:
		return stepWithdraw, reported.Spec.Epoch
	}
}

func planUnknown(reported *v1alpha1.SessionAssignment) (step, int64) {
	switch {
	case reported == nil:
		return stepNone, 0
	case status.Ended(reported):
		return stepForget, reported.Spec.Epoch
	default:
		return stepOrphan, reported.Spec.Epoch
	}
}

func planStop(w status.Desired, reported *v1alpha1.SessionAssignment) (step, int64) {
	if reported != nil && status.Ended(reported) && reported.Spec.Epoch >= w.StopEpoch {
		return stepRecordStopped, w.StopEpoch
	}
	return stepWithdraw, w.StopEpoch
}

func planRun(w status.Desired, reported *v1alpha1.SessionAssignment, hash string) (step, int64) {
	switch {
	case reported != nil && reported.Spec.Epoch < w.Epoch && !status.Ended(reported) && status.NotesRefusal(reported):
		// It refused the placement and runs an earlier one: that has to stop,
		// and with it goes the placement.
		return stepWithdraw, w.Epoch
	case reported == nil, reported.Spec.Epoch < w.Epoch:
		return stepAssign, w.Epoch
	case reported.Status.State == v1alpha1.AssignmentStopped:
		return stepRecordStopped, w.Epoch
	case reported.Status.State == v1alpha1.AssignmentRefused:
		return stepRecordRefused, w.Epoch
	case reported.Status.State == v1alpha1.AssignmentStopping:
		return stepMirror, w.Epoch
	case reported.Annotations[v1alpha1.AnnotationSpecHash] != hash && !status.NotesRefusal(reported):
		return stepAssign, w.Epoch
	case len(reported.Status.MissingSecrets) > 0:
		return stepResend, w.Epoch
	default:
		return stepMirror, w.Epoch
	}
}
