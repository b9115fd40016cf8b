package status

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Desired is what a session's status requires of one member.
type Desired struct {
	// Run is set if the session is placed there, under epoch.
	Run   bool
	Epoch int64
	// Stop is set if everything up to StopEpoch must stop there, and its end be recorded.
	Stop      bool
	StopEpoch int64
}

// DesiredIn derives from a session's status what it requires of a member.
func DesiredIn(s *v1alpha1.VDISession, member types.UID) Desired {
	var w Desired
	for _, r := range s.Status.Releasing {
		if r.ClusterUID == member {
			w.Stop, w.StopEpoch = true, r.Epoch
		}
	}
	if p := s.Status.Placement; p != nil && p.ClusterUID == member {
		if s.DeletionTimestamp.IsZero() {
			w.Run, w.Epoch = true, p.Epoch
		} else {
			w.Stop, w.StopEpoch = true, max(w.StopEpoch, p.Epoch)
		}
	}
	return w
}
