package session

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
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

// want is what a session's status asks of one member.
type want struct {
	// run: the session is placed there, under epoch.
	run   bool
	epoch int64
	// stop: everything up to stopEpoch must stop there, and its end recorded.
	stop      bool
	stopEpoch int64
}

// wantOf reads what a session asks of a member from its status.
func wantOf(s *v1alpha1.VDISession, member types.UID) want {
	var w want
	for _, r := range s.Status.Releasing {
		if r.ClusterUID == member {
			w.stop, w.stopEpoch = true, r.Epoch
		}
	}
	if p := s.Status.Placement; p != nil && p.ClusterUID == member {
		if s.DeletionTimestamp.IsZero() {
			w.run, w.epoch = true, p.Epoch
		} else {
			w.stop, w.stopEpoch = true, max(w.stopEpoch, p.Epoch)
		}
	}
	return w
}

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
	w := wantOf(s, member)
	if reported != nil && reported.Spec.Epoch > s.Status.Epoch {
		return stepAdopt, reported.Spec.Epoch
	}
	switch {
	case w.stop:
		return planStop(w, reported)
	case w.run:
		return planRun(w, reported, hash)
	case reported == nil:
		return stepNone, 0
	case ended(reported):
		return stepForget, reported.Spec.Epoch
	default:
		return stepWithdraw, reported.Spec.Epoch
	}
}

func planUnknown(reported *v1alpha1.SessionAssignment) (step, int64) {
	switch {
	case reported == nil:
		return stepNone, 0
	case ended(reported):
		return stepForget, reported.Spec.Epoch
	default:
		return stepOrphan, reported.Spec.Epoch
	}
}

func planStop(w want, reported *v1alpha1.SessionAssignment) (step, int64) {
	if reported != nil && ended(reported) && reported.Spec.Epoch >= w.stopEpoch {
		return stepRecordStopped, w.stopEpoch
	}
	return stepWithdraw, w.stopEpoch
}

func planRun(w want, reported *v1alpha1.SessionAssignment, hash string) (step, int64) {
	switch {
	case reported != nil && reported.Spec.Epoch < w.epoch && !ended(reported) && notesRefusal(reported):
		// It refused the placement and runs an earlier one: that has to stop,
		// and with it goes the placement.
		return stepWithdraw, w.epoch
	case reported == nil, reported.Spec.Epoch < w.epoch:
		return stepAssign, w.epoch
	case reported.Status.State == v1alpha1.AssignmentStopped:
		return stepRecordStopped, w.epoch
	case reported.Status.State == v1alpha1.AssignmentRefused:
		return stepRecordRefused, w.epoch
	case reported.Status.State == v1alpha1.AssignmentStopping:
		return stepMirror, w.epoch
	case reported.Annotations[v1alpha1.AnnotationSpecHash] != hash && !notesRefusal(reported):
		return stepAssign, w.epoch
	case len(reported.Status.MissingSecrets) > 0:
		return stepResend, w.epoch
	default:
		return stepMirror, w.epoch
	}
}

// notesRefusal is whether an assignment that goes on bears the note that the member
// would not store a change of it. Any other reason is of the agent's conditions.
func notesRefusal(reported *v1alpha1.SessionAssignment) bool {
	switch reported.Status.Reason {
	case v1alpha1.RefusedInvalid, v1alpha1.RefusedNamespaceNotAdmitted, v1alpha1.RefusedNoRoom, v1alpha1.RefusedStaleEpoch,
		v1alpha1.RefusedNotAllowed:
		return true
	}
	return false
}

// ended is true of what the member says is over: stopped, or never stored.
func ended(reported *v1alpha1.SessionAssignment) bool {
	return reported.Status.State == v1alpha1.AssignmentStopped || reported.Status.State == v1alpha1.AssignmentRefused
}
