package session

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// causeless reports whether no durable record says why a member is to stop what it
// reports of a session: the session is not being deleted, was not given up there, and
// no later epoch of it was given. It just isn't there by the hub's account.
func causeless(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment) bool {
	if s == nil || reported == nil || !s.DeletionTimestamp.IsZero() {
		return false
	}
	w := wantOf(s, member)
	return !w.stop && !w.run && reported.Spec.Epoch >= s.Status.Epoch
}
