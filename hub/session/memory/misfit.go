package memory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// timeoutDoubles is how many of a session's moves each double the timeout in the next
	// member: a Pod that fits no node anywhere is not moved forever.
	timeoutDoubles = 5
	// LeftFor is how long a session is not placed again where no node fit its Pod, or where
	// it was moved out of.
	LeftFor = 2 * time.Minute
)

// NoNodeFits is why a session is not placed where no node fit its Pod.
const NoNodeFits = v1alpha1.ReasonUnschedulablePod + ": no node of it fits the Pod"

// misfit is a session whose Pod fits no node, or did not before it was moved. Without it
// the timeout starts over.
type misfit struct {
	// epoch of the placement in which its Pod fits no node; 0 if none.
	epoch int64
	// due is when another member may be tried.
	due time.Time
	// count of its moves, and until when it is not placed in a member that it was moved out of.
	count int
	left  map[types.UID]time.Time
}

// MisfitWait returns how long a session's member still has to find a node for its Pod, or 0 if
// another is tried.
func (m *Memory) MisfitWait(s *v1alpha1.VDISession, now time.Time, timeout time.Duration) (wait time.Duration) {
	m.with(s.UID, func(r *record) {
		f, at := r.misfits(), s.Status.Placement
		if f.epoch != at.Epoch {
			f.epoch, f.due = at.Epoch, now.Add(timeout<<min(f.count, timeoutDoubles))
		}
		wait = max(0, f.due.Sub(now))
	})
	return wait
}

// misfits returns the record of a session's misfits, and begins one.
func (r *record) misfits() *misfit {
	if r.misfit == nil {
		r.misfit = &misfit{left: map[types.UID]time.Time{}}
	}
	return r.misfit
}

// Moved records that a session was moved since its Pod had no node.
func (m *Memory) Moved(session types.UID, from *v1alpha1.Placement, now time.Time) {
	m.with(session, func(r *record) {
		f := r.misfits()
		f.count++
		f.left[from.ClusterUID] = now.Add(LeftFor)
	})
}

// Settled records that a session does not wait for a node where it is placed. The members
// that it was moved out of are remembered until it has run.
func (m *Memory) Settled(s *v1alpha1.VDISession) {
	m.with(s.UID, func(r *record) {
		switch f := r.misfit; {
		case f == nil:
		case s.Status.RunningSince != nil || len(f.left) == 0:
			r.misfit = nil
		default:
			f.epoch = 0
		}
	})
}

// MovedOut is why a session is not placed in a member that it was moved out of on request.
const MovedOut = "Moved: it was moved out of that member"

// leftMember is a member that a session was moved out of.
type leftMember struct {
	member types.UID
	until  time.Time
}
