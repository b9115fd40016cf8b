package memory

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Memory is what this process knows of sessions beside what is stored: one record for each,
// until the session is gone. It may be lost at any time: a leader begins without it.
type Memory struct {
	mu      sync.Mutex
	records map[types.UID]*record
}

// record is what is known of one session.
type record struct {
	// given is the last epoch that this process has given and knows to be stored; 0: none.
	// Others were given by an earlier leader, of whose last writes the cache may not tell
	// yet.
	given int64
	// written is the version that this process' last write made, until the cache shows it:
	// what is decided from an earlier view is bound to fail at the lock.
	written string
	// forced is since when the cleanup is to be forced, and lost since when its member is
	// known to be lost; zero: it is not.
	forced, lost time.Time
	// claims are the members that prove that they hold the session although its status does
	// not say so.
	claims sets.Set[string]
	// misfit: no node fits its Pod, or did not before it was moved.
	misfit *misfit
	// refused are the members that would not store it.
	refused *refused
	// left is the member that it was asked to leave.
	left *leftMember
}

func (r *record) empty() bool {
	return r.given == 0 && r.written == "" && r.forced.IsZero() && r.lost.IsZero() && len(r.claims) == 0 &&
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

// Forget a session that is gone.
func (m *Memory) Forget(session types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, session)
}

// Give notes an epoch that this process has given.
func (m *Memory) Give(session types.UID, epoch int64) {
	m.with(session, func(r *record) { r.given = max(r.given, epoch) })
}

// Given is the last epoch that this process has given, or 0.
func (m *Memory) Given(session types.UID) (epoch int64) {
	m.with(session, func(r *record) { epoch = r.given })
	return epoch
}

// StaleWait is when to look again at a session that the cache shows as it was
// before this process' own last write. The event that brings the cache up to
// date comes earlier, as a rule.
const StaleWait = time.Second

// Wrote notes a session as a write returned it.
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

// olderThan compares resource versions; what cannot be compared is not older.
func olderThan(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// ForcedSince returns since when a session's cleanup is to be forced, which is now if it
// was not known.
func (m *Memory) ForcedSince(session types.UID, now time.Time) (since time.Time) {
	m.with(session, func(r *record) {
		if r.forced.IsZero() {
			r.forced = now
		}
		since = r.forced
	})
	return since
}

// Claim notes that a member proves that it holds a session.
func (m *Memory) Claim(session types.UID, member string) {
	m.with(session, func(r *record) {
		if r.claims == nil {
			r.claims = sets.New[string]()
		}
		r.claims.Insert(member)
	})
}

// Claims returns the members that prove that they hold a session.
func (m *Memory) Claims(session types.UID) (members sets.Set[string]) {
	m.with(session, func(r *record) { members = r.claims.Clone() })
	return members
}

// Unclaim notes that a member does not prove that any more.
func (m *Memory) Unclaim(session types.UID, member string) {
	m.with(session, func(r *record) { r.claims.Delete(member) })
}

// Lose notes that a session's member is lost.
func (m *Memory) Lose(session types.UID, now time.Time) {
	m.with(session, func(r *record) {
		if r.lost.IsZero() {
			r.lost = now
		}
	})
}

// Found notes that a session's member is not lost. It returns since when it was; zero: it
// was not.
func (m *Memory) Found(session types.UID) (lost time.Time) {
	m.with(session, func(r *record) { lost, r.lost = r.lost, time.Time{} })
	return lost
}

// CountLost returns of how many sessions the member is lost, of those that are to be placed
// again or held.
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

// Avoid keeps a session from being sent back where it was asked to leave, for a while.
func (m *Memory) Avoid(session, member types.UID, now time.Time) {
	m.with(session, func(r *record) { r.left = &leftMember{member, now.Add(LeftFor)} })
}
