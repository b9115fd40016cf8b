package session

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// ownOf is what of a session and a member's report bears on each other. A
// report under the name of a session's assignment, but of another UID, is none
// of that session: a member that was ever given it knows the UID. Where the
// session is placed in the member, or being released from it, the report is
// left aside; elsewhere the member is answered as if there were no such
// session, so that it learns nothing of it.
func ownOf(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment) (*v1alpha1.VDISession, *v1alpha1.SessionAssignment) {
	if s == nil || reported == nil || reported.Spec.Session.UID == s.UID {
		return s, reported
	}
	foreignReports.Inc()
	if w := wantOf(s, member); w.run || w.stop {
		return s, nil
	}
	return nil, reported
}
