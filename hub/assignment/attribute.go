package assignment

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Attribute returns the session and the report that Plan is to compare. proven is set if the
// report has the proof that its epoch of the session was assigned to the member.
//
// If the report is not the session's, and the session is placed in the member or being
// released from it, only the report's answer to the hub's orders is returned. Otherwise no
// session is returned, so that nothing of it is disclosed to the member.
func Attribute(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment, proven bool) (*v1alpha1.VDISession, *v1alpha1.SessionAssignment) {
	if s == nil || reported == nil {
		return s, reported
	}
	w := status.DesiredIn(s, member)
	ordered := w.Run || w.Stop
	switch {
	case accepted(s, ordered, reported, proven):
		return s, reported
	case ordered:
		return s, answerOf(s, w, reported)
	default:
		return nil, reported
	}
}

// accepted reports whether a report counts for a session. Name and UID prove nothing, since
// any member may have them. The session's status shows which epochs were assigned only for
// the members where it is placed or being released, and up to its current epoch. All other
// reports require the proof: those of a member that returns after a failover, and of epochs
// that a restored hub has lost.
func accepted(s *v1alpha1.VDISession, ordered bool, reported *v1alpha1.SessionAssignment, proven bool) bool {
	return reported.Spec.Session.UID == s.UID && (proven || ordered && reported.Spec.Epoch <= s.Status.Epoch)
}

// answerOf returns what a report that is not accepted implies for the session's current
// epoch, or nil. The end of a later epoch ends all earlier ones, and a refusal answers the
// hub's order. The member could report both without a proof. If they were ignored, the same
// order would be sent forever.
func answerOf(s *v1alpha1.VDISession, w status.Desired, reported *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment {
	answer := reported.DeepCopy()
	answer.Spec.Session.UID, answer.Spec.Epoch, answer.Spec.Proof = s.UID, s.Status.Epoch, ""
	switch {
	case status.Ended(reported) && reported.Spec.Session.UID == s.UID:
		return answer
	case w.Run && !status.Ended(reported) && status.ReportsRefusal(reported):
		answer.Status.State = v1alpha1.AssignmentRefused
		return answer
	}
	return nil
}
