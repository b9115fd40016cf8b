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

// MayAddNode reports whether a session was placed where no slot was free: its order permits the member
// to add a node. Condition Scheduled stores it, so that a later leader sends the same order. An order
// for a free slot does not permit it: if the slot is gone, the agent refuses, and the session is placed
// again by its policy, for which a free slot elsewhere may come before a new node.
func MayAddNode(s *v1alpha1.VDISession) bool {
	return ReasonOf(s, v1alpha1.ConditionScheduled) == v1alpha1.ReasonPlacedOnNewNode
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
