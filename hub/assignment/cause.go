package assignment

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// causeless reports whether no durable record says why a member is to stop what it
// reports of a session: the session is not being deleted, was not given up there, and
// no later epoch of it was given. It just isn't there by the hub's account.
func causeless(s *v1alpha1.VDISession, member types.UID, reported *v1alpha1.SessionAssignment) bool {
	if s == nil || reported == nil || !s.DeletionTimestamp.IsZero() {
		return false
	}
	w := status.DesiredIn(s, member)
	return !w.Stop && !w.Run && reported.Spec.Epoch >= s.Status.Epoch
}
