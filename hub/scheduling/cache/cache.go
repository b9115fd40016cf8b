package cache

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// Members are the members of the fleet, which hub/member documents.
type Members interface {
	// Snapshot returns members without the numbers of their sessions, valid until the next call.
	// All members, if of is nil, keep the numbers that the caller sets, as long as it returns the
	// same slice.
	Snapshot(of []types.UID) placement.Snapshot
	FailoverOf(member types.UID) failover.Decider
	SessionsMoved(more, fewer []types.UID, policies []string)
}

// Cache decides on requests, and reserves capacity for them. A call for an unknown member
// changes nothing.
type Cache struct {
	clock   clock.PassiveClock
	members Members

	mu sync.Mutex
	// placed are the sessions of the members, ledger the reservations in them.
	placed    placedSessions
	ledger    *placement.Ledger
	rateLimit *failover.RateLimit
	// all are the members of the last snapshot of all.
	all countedMembers
}

// New returns a cache in which nothing is placed. Follow must be called before it is used.
func New(c clock.PassiveClock) *Cache {
	cache := &Cache{clock: c, placed: newPlacedSessions(), ledger: placement.NewLedger(), rateLimit: failover.NewRateLimit()}
	scraped.Store(cache)
	return cache
}

// Follow sets the members. It is called once.
func (c *Cache) Follow(members Members) { c.members = members }

// snapshot returns members, all if of is nil, with the numbers of their sessions. The
// caller holds the lock, and does not use the result after it.
func (c *Cache) snapshot(of []types.UID) placement.Snapshot {
	s := c.members.Snapshot(of)
	if of == nil {
		c.all.count(s.Candidates, c.placed)
		return s
	}
	for i := range s.Candidates {
		s.Candidates[i].Sessions = c.placed.count(s.Candidates[i].UID)
	}
	return s
}

// countedMembers are all members with the numbers of their sessions, and their indexes.
type countedMembers struct {
	candidates []placement.Candidate
	positions  map[types.UID]int
}

// count sets the numbers of sessions of all members. If the candidates are those of the last
// call, which keep their numbers, it sets only those that have changed.
func (m *countedMembers) count(all []placement.Candidate, placed placedSessions) {
	if len(all) == 0 || len(all) != len(m.candidates) || &all[0] != &m.candidates[0] {
		m.candidates, m.positions = all, make(map[types.UID]int, len(all))
		for i := range all {
			m.positions[all[i].UID] = i
			all[i].Sessions = placed.count(all[i].UID)
		}
	} else {
		for member := range placed.changed {
			if i, ok := m.positions[member]; ok {
				all[i].Sessions = placed.count(member)
			}
		}
	}
	clear(placed.changed)
}

// CountedFrom records the first capacity report of a member that counts a session's
// assignment with a hash, which the member has stored.
func (c *Cache) CountedFrom(session types.UID, epoch int64, member types.UID, hash string, sequence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.CountedFrom(session, epoch, member, hash, sequence)
}

// Reported records that a member's capacity report has arrived: it counts, and the reservations that it
// counts do not any more, in one step. It is evaluated without the lock, so that no decision waits.
func (c *Cache) Reported(member types.UID, report *placement.Capacity) {
	c.mu.Lock()
	c.ledger.Reported(member, report.Sequence)
	if i, ok := c.all.positions[member]; ok {
		// The last snapshot, which may be that of yesterday, keeps no earlier report in memory.
		c.all.candidates[i].Capacity = report
	}
	e := c.ledger.Evaluation(member, report)
	c.mu.Unlock()
	e.Compute()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.Evaluated(e)
}

// Ended releases the reservation for a session's epoch in a member: nothing of it runs
// there, or the member's reports count it.
func (c *Cache) Ended(session types.UID, epoch int64, member types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.Release(session, epoch, member)
}

// Restarted records that another process reports for a member: its reports are numbered
// from the start again.
func (c *Cache) Restarted(member types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.Reset(member)
}

// Removed removes a member that is no longer part of the fleet.
func (c *Cache) Removed(member types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.Forget(member)
	c.rateLimit.RemoveTarget(member)
}

// Sessions counts the sessions of each of these members, at one time.
func (c *Cache) Sessions(members ...types.UID) []placement.SessionCount {
	out := make([]placement.SessionCount, len(members))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, member := range members {
		out[i] = placement.SessionCount{All: c.placed.count(member), Releasing: c.placed.releasing[member]}
	}
	return out
}

// Holds reports whether a session is placed in a member, or not confirmed as stopped there.
func (c *Cache) Holds(member, session types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, holds := c.placed.sessions[member][session]
	return holds
}

// PlacedWith counts the sessions of a template that are placed, or not confirmed as stopped,
// by revision.
func (c *Cache) PlacedWith(template string) map[string]int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.placed.templates[template])
}
