package assignment

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

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
