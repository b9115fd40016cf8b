package memory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Known is what the leading process knows of a session that determines its next placement. That
// of a new leader is empty.
type Known struct {
	// LastEpoch is the last epoch that this process assigned and that is stored for
	// certain; 0 if there is none.
	LastEpoch int64
	// Excluded are the members to which the session is not assigned now, with the reason:
	// they refused it, or had no node for its Pod, or it was moved out of them.
	Excluded map[types.UID]string
	// RefusedFree are those of them that refused it since no slot was free, although they may
	// add a node.
	RefusedFree sets.Set[types.UID]
	// Refused are the members that refused the session recently, with the reason. Pause
	// is how long it is not placed because too many did, or zero. RetryAfter is how
	// long until the first of them may be tried again; zero if none refused it.
	Refused           map[types.UID]string
	Pause, RetryAfter time.Duration
	// PauseNext is set if one more refusal makes the session pause.
	PauseNext bool
}

// Known returns what is known of a session. reported is when a member last reported its
// capacity.
func (m *Memory) Known(s *v1alpha1.VDISession, now time.Time, reported func(member types.UID) time.Time) Known {
	k := Known{Excluded: map[types.UID]string{}}
	m.with(s.UID, func(r *record) {
		k.LastEpoch = r.epoch
		if r.misfit != nil {
			for member, left := range r.misfit.left {
				if now.Before(left.until) {
					k.Excluded[member] = left.cause.Exclusion()
				}
			}
		}
		if r.left != nil && now.Before(r.left.until) {
			k.Excluded[r.left.member] = MovedOut
		}
		f := r.refused
		if f == nil {
			return
		}
		k.Refused, k.Pause, k.RetryAfter = f.of(now), f.pause(now), f.expiry(now)
		for member, why := range k.Refused {
			if !f.lifted(member, reported(member)) {
				k.exclude(member, why, f.members[member].free)
			}
		}
		if at := s.Status.Placement; at != nil {
			k.PauseNext = f.pausesNext(at.Epoch, now)
		}
	})
	return k
}

// exclude excludes a member that refused the session; free is set if it may still add a node. One that
// is excluded for another reason stays so.
func (k *Known) exclude(member types.UID, why string, free bool) {
	if _, excluded := k.Excluded[member]; free && !excluded {
		if k.RefusedFree == nil {
			k.RefusedFree = sets.Set[types.UID]{}
		}
		k.RefusedFree.Insert(member)
	}
	k.Excluded[member] = why
}
