package memory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// patienceDoubles is how many of a session's moves each double the time that
	// the next member gets: what fits nowhere is not sent round for ever.
	patienceDoubles = 5
	// LeftFor is how long a session is not sent back where no node fitted it.
	LeftFor = 2 * time.Minute
)

// NoNodeFits is why a session is not sent back where it was moved from.
const NoNodeFits = v1alpha1.ReasonUnschedulablePod + ": no node of it fits the Pod"

// misfit is a session whose Pod fits no node, or did not before it was moved. If it is
// forgotten, patience starts over.
type misfit struct {
	// epoch of the placement in which it fits no node; 0: that is of none known.
	epoch int64
	// due is when other members may be asked.
	due time.Time
	// count of its moves, and until when it is not sent back to which members.
	count int
	left  map[types.UID]time.Time
}

// wait is how long a session of which no node fits the Pod is left alone; 0: it
// is time to ask for another member.
func (f *misfit) wait(epoch int64, now time.Time, patience time.Duration) time.Duration {
	if f.epoch != epoch {
		f.epoch, f.due = epoch, now.Add(patience<<min(f.count, patienceDoubles))
	}
	return max(0, f.due.Sub(now))
}

// MisfitWait is the wait of a session of which no node fits the Pod.
func (m *Memory) MisfitWait(s *v1alpha1.VDISession, now time.Time, patience time.Duration) (wait time.Duration) {
	m.with(s.UID, func(r *record) {
		if r.misfit == nil {
			r.misfit = &misfit{left: map[types.UID]time.Time{}}
		}
		wait = r.misfit.wait(s.Status.Placement.Epoch, now, patience)
	})
	return wait
}

// Moved notes that a session was taken from where it was placed.
func (m *Memory) Moved(session types.UID, from *v1alpha1.Placement, now time.Time) {
	m.with(session, func(r *record) {
		if r.misfit != nil {
			r.misfit.count++
			r.misfit.left[from.ClusterUID] = now.Add(LeftFor)
		}
	})
}

// Settled notes that a session does not wait for a node where it is placed. What
// it was moved from is remembered until it has run.
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

// WasLeft is why a session is not sent back to a member that it was to leave.
const WasLeft = "Moved: it was asked to leave that member"

// leftMember is a member that a session was asked to leave.
type leftMember struct {
	member types.UID
	until  time.Time
}

// Unwilling are the members that a session is not sent to for a while, with why: they
// refused it, or had no node for it, or it was to leave them.
// reported is when a member reported its capacity last.
func (m *Memory) Unwilling(session types.UID, now time.Time, reported func(member types.UID) time.Time) map[types.UID]string {
	out := map[types.UID]string{}
	m.with(session, func(r *record) {
		if r.misfit != nil {
			for member, until := range r.misfit.left {
				if now.Before(until) {
					out[member] = NoNodeFits
				}
			}
		}
		if r.left != nil && now.Before(r.left.until) {
			out[r.left.member] = WasLeft
		}
		for member, why := range r.refused.of(now) {
			if !r.refused.lifted(member, reported(member)) {
				out[member] = why
			}
		}
	})
	return out
}
