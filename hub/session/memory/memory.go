package memory

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Memory has a record for each session.
type Memory struct {
	mu      sync.Mutex
	records map[types.UID]*record
}

// record is the state of one session.
type record struct {
	// epoch is the last one that this process assigned and that is stored for certain; 0 if none.
	// Others were assigned by an earlier leader, whose last writes the cache may not show yet.
	epoch int64
	// written is the resource version of this process's last write, until the cache
	// shows it: a decision from an earlier version fails at the optimistic lock.
	written string
	// forced is since when its cleanup is forced, and lost since when its member counts
	// as lost; zero if it is not.
	forced, lost time.Time
	// claims are the members that prove that they have the session although its status does
	// not name them.
	claims sets.Set[string]
	// misfit is set if no node fits its Pod, or did not before it was moved.
	misfit *misfit
	// refused are the refusals of members to store its assignment.
	refused *refused
	// left is the member that it was moved out of.
	left *leftMember
}

func (r *record) empty() bool {
	return r.epoch == 0 && r.written == "" && r.forced.IsZero() && r.lost.IsZero() && len(r.claims) == 0 &&
		r.misfit == nil && r.refused == nil && r.left == nil
}

// with reads and changes a session's record under the lock.
func (m *Memory) with(session types.UID, f func(*record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.records[session]
	if !known {
		r = &record{}
	}
	f(r)
	switch {
	case known && r.empty():
		delete(m.records, session)
	case !known && !r.empty():
		if m.records == nil {
			m.records = map[types.UID]*record{}
		}
		m.records[session] = r
	}
}

// Forget removes a session that is gone.
func (m *Memory) Forget(session types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, session)
}

// Assigned records an epoch that this process assigned.
func (m *Memory) Assigned(session types.UID, epoch int64) {
	m.with(session, func(r *record) { r.epoch = max(r.epoch, epoch) })
}

// LastEpoch returns the last epoch that this process assigned, or 0.
func (m *Memory) LastEpoch(session types.UID) (epoch int64) {
	m.with(session, func(r *record) { epoch = r.epoch })
	return epoch
}

// StaleWait is after how long a session is reconciled again if the cache does not show
// this process's last write of it. The event that updates the cache usually comes
// earlier.
const StaleWait = time.Second

// Wrote records a session as a write returned it.
func (m *Memory) Wrote(s *v1alpha1.VDISession) {
	m.with(s.UID, func(r *record) {
		if !olderThan(s.ResourceVersion, r.written) {
			r.written = s.ResourceVersion
		}
	})
}

// Stale reports whether a session from the cache is older than what was written.
func (m *Memory) Stale(s *v1alpha1.VDISession) (stale bool) {
	m.with(s.UID, func(r *record) {
		if stale = olderThan(s.ResourceVersion, r.written); !stale {
			r.written = ""
		}
	})
	return stale
}

// olderThan reports whether a resource version is older; false if they can't be compared.
func olderThan(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ForcedSince returns since when a session's cleanup is forced, which is now at the first call.
func (m *Memory) ForcedSince(session types.UID, now time.Time) (since time.Time) {
	m.with(session, func(r *record) {
		if r.forced.IsZero() {
			r.forced = now
		}
		since = r.forced
	})
	return since
}

// Claim records that a member proves that it has a session.
func (m *Memory) Claim(session types.UID, member string) {
	m.with(session, func(r *record) {
		if r.claims == nil {
			r.claims = sets.New[string]()
		}
		r.claims.Insert(member)
	})
}

// Claims returns the members that prove that they have a session.
func (m *Memory) Claims(session types.UID) (members sets.Set[string]) {
	m.with(session, func(r *record) { members = r.claims.Clone() })
	return members
}

// Unclaim records that a member no longer proves that it has a session.
func (m *Memory) Unclaim(session types.UID, member string) {
	m.with(session, func(r *record) { r.claims.Delete(member) })
}

// Lose records that a session's member is lost.
func (m *Memory) Lose(session types.UID, now time.Time) {
	m.with(session, func(r *record) {
		if r.lost.IsZero() {
			r.lost = now
		}
	})
}

// Found records that a session's member is not lost. It returns since when it was; zero
// if it was not.
func (m *Memory) Found(session types.UID) (lost time.Time) {
	m.with(session, func(r *record) { lost, r.lost = r.lost, time.Time{} })
	return lost
}

// CountLost returns the number of sessions that are to run and whose member is lost.
func (m *Memory) CountLost() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.records {
		if !r.lost.IsZero() {
			n++
		}
	}
	return n
}

// Avoid excludes a member that a session was moved out of from its placement, for LeftFor.
func (m *Memory) Avoid(session, member types.UID, now time.Time) {
	m.with(session, func(r *record) { r.left = &leftMember{member, now.Add(LeftFor)} })
}
