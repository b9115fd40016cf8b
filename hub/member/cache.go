package member

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// Cache is the scheduler's cache. It is never called under the fleet's lock, which it
// acquires under its own.
type Cache interface {
	Reservations
	Sessions
}

// Reservations are capacity that the members' reports do not count yet.
type Reservations interface {
	// CountedFrom records the first capacity report of a member that counts a session's
	// assignment with a hash, which the member has stored.
	CountedFrom(session types.UID, epoch int64, member types.UID, hash string, sequence uint64)
	// Reported records that a member's capacity report has arrived, and is in the snapshot.
	Reported(member types.UID, sequence uint64)
	// Ended releases the reservation for a session's epoch in a member.
	Ended(session types.UID, epoch int64, member types.UID)
	// Restarted records that another agent process reports for a member.
	Restarted(member types.UID)
	// Removed removes a member that is no longer part of the fleet.
	Removed(member types.UID)
}

// Sessions are the members' sessions according to the hub.
type Sessions interface {
	// Sessions counts the sessions that are placed in a member, or not confirmed as stopped
	// there; releasing counts the latter.
	Sessions(member types.UID) (all, releasing int32)
	// Holds reports whether a session is one of them.
	Holds(member, session types.UID) bool
}

// Snapshot returns members as candidates, without their sessions: all members if of is nil.
func (f *Registry) Snapshot(of []types.UID) placement.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	s := placement.Snapshot{Now: now}
	if awaits, wait := f.awaitsReports(now); wait {
		s.Awaits, s.AwaitsFor = &awaits, f.recovery.until.Sub(now)
	}
	if of == nil {
		s.Candidates = make([]placement.Candidate, 0, len(f.members))
		for _, m := range f.members {
			s.Candidates = append(s.Candidates, f.candidate(m, now))
		}
	}
	for _, uid := range of {
		if m := f.uids[uid]; m != nil {
			s.Candidates = append(s.Candidates, f.candidate(m, now))
		}
	}
	return s
}

// SessionsMoved notifies the listeners that members have more or fewer sessions, and that the
// caps of policies count fewer.
func (f *Registry) SessionsMoved(more, fewer []types.UID, policies []string) {
	var changes []Change
	f.mu.Lock()
	for kind, members := range map[ChangeKind][]types.UID{MemberSessions: more, MemberCapacity: fewer} {
		for _, uid := range members {
			if m := f.uids[uid]; m != nil {
				changes = append(changes, m.change(kind))
			}
		}
	}
	f.mu.Unlock()
	for _, name := range policies {
		changes = append(changes, Change{Kind: PolicyCapacity, Policy: name})
	}
	f.notify(changes...)
}
