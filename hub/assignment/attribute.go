package assignment

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Own is what of a session and a member's report bears on each other. proven
// is whether the report bears the proof that its epoch of the session was given
// to the member.
//
// A report that does not count for the session is left aside where the session
// is placed in the member, or being released from it, but for the member's answer
// to the hub's own orders. Elsewhere the member is answered as if there were no
// such session, so that it learns nothing of it.
func Own(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment, proven bool) (*v1alpha1.VDISession, *v1alpha1.SessionAssignment) {
	if s == nil || reported == nil {
		return s, reported
	}
	w := status.DesiredIn(s, member)
	given := w.Run || w.Stop
	switch {
	case believed(s, given, reported, proven):
		return s, reported
	case given:
		return s, answerOf(s, w, reported)
	default:
		return nil, reported
	}
}

// believed is whether a report counts for a session. A member that was ever
// given a session, or has heard of it, knows its name and its UID; which epochs
// it was given, the hub's status knows of those members alone that the session
// is placed in or being released from, and only up to its own epoch. For all
// else the report must bring the proof: a member that comes back with what was
// taken from it, and what a hub that was restored from an older state has
// forgotten.
func believed(s *v1alpha1.VDISession, given bool, reported *v1alpha1.SessionAssignment, proven bool) bool {
	if reported.Spec.Session.UID != s.UID {
		return false
	}
	return proven || given && reported.Spec.Epoch <= s.Status.Epoch
}

// answerOf is what a report that does not count still says of the session's own
// epoch; nil: nothing. The end of a later one is the end of all before it, and a
// refusal that is noted on it is of the hub's order. The member could say either
// in so many words, so nobody is believed in more than before; unheard, the same
// order would go out for ever.
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
