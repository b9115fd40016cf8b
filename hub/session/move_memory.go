package session

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// patienceDoubles is how many of a session's moves each double the time that
	// the next member gets: what fits nowhere is not sent round for ever.
	patienceDoubles = 5
	// leftFor is how long a session is not sent back where no node fitted it.
	leftFor = 2 * time.Minute
)

// noNodeFits is why a session is not sent back where it was moved from.
const noNodeFits = v1alpha1.ReasonUnschedulablePod + ": no node of it fits the Pod"

// moves remembers which sessions' Pods fit no node, when to ask other members
// for them, and what they were moved from. It may be forgotten at any time:
// patience begins anew.
type moves struct {
	mu sync.Mutex
	of map[types.UID]*misfit
}

// misfit is a session whose Pod fits no node, or did not before it was moved.
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
func (m *moves) wait(s *v1alpha1.VDISession, now time.Time, patience time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.UID]*misfit{}
	}
	f := m.of[s.UID]
	if f == nil {
		f = &misfit{left: map[types.UID]time.Time{}}
		m.of[s.UID] = f
	}
	if epoch := s.Status.Placement.Epoch; f.epoch != epoch {
		f.epoch, f.due = epoch, now.Add(patience<<min(f.count, patienceDoubles))
	}
	return max(0, f.due.Sub(now))
}

// moved notes that a session was taken from where it was placed.
func (m *moves) moved(s *v1alpha1.VDISession, from *v1alpha1.Placement, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.of[s.UID]; f != nil {
		f.count++
		f.left[from.ClusterUID] = now.Add(leftFor)
	}
}

// settled notes that a session does not wait for a node where it is placed. What
// it was moved from is remembered until it has run.
func (m *moves) settled(s *v1alpha1.VDISession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.of[s.UID]
	switch {
	case f == nil:
	case s.Status.RunningSince != nil || len(f.left) == 0:
		delete(m.of, s.UID)
	default:
		f.epoch = 0
	}
}

// from are the members that a session was moved from lately, with why.
func (m *moves) from(session types.UID, now time.Time) map[types.UID]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[types.UID]string{}
	if f := m.of[session]; f != nil {
		for member, until := range f.left {
			if now.Before(until) {
				out[member] = noNodeFits
			}
		}
	}
	return out
}

// forget a session that is gone.
func (m *moves) forget(session types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, session)
}
