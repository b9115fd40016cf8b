package fleet

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// placedSessions counts which sessions each member holds or may still hold:
// placed there, or given up and not confirmed stopped.
type placedSessions struct {
	// sessions by member, and members by session.
	sessions map[types.UID]map[types.UID]struct{}
	members  map[types.UID][]types.UID
	// decided are decisions that the hub's cache does not show yet.
	decided map[types.UID]decision
}

// decision to place a session in a member under an epoch.
type decision struct {
	epoch  int64
	member types.UID
	// giveBack is set where the session is placed there under this epoch already
	// and is to run again, as this run.
	giveBack func()
	run      int64
}

func (d decision) again() bool { return d.giveBack != nil }

// shownBy is whether a session of this epoch and run is one that the decision
// was written on, or a later one.
func (d decision) shownBy(epoch, run int64) bool {
	if d.again() && epoch == d.epoch {
		return run >= d.run
	}
	return epoch >= d.epoch
}

func newPlacedSessions() placedSessions {
	return placedSessions{
		sessions: map[types.UID]map[types.UID]struct{}{},
		members:  map[types.UID][]types.UID{},
		decided:  map[types.UID]decision{},
	}
}

func (p placedSessions) count(member types.UID) int32 { return int32(len(p.sessions[member])) } //nolint:gosec // a member holds no billions

// decide counts a session for a member before any cache shows it there.
func (p placedSessions) decide(session types.UID, d decision) {
	p.decided[session] = d
	if !d.again() {
		p.set(session, append(slices.Clone(p.members[session]), d.member))
	}
}

// undo takes back a decision that no cache has shown.
func (p placedSessions) undo(session types.UID) (decision, bool) {
	d, ok := p.decided[session]
	if !ok {
		return d, false
	}
	delete(p.decided, session)
	if !d.again() {
		p.set(session, slices.DeleteFunc(slices.Clone(p.members[session]), func(m types.UID) bool { return m == d.member }))
	}
	return d, true
}

// observe counts a session as the hub's cache shows it. A view that is older
// than the last decision does not undo it.
func (p placedSessions) observe(session types.UID, epoch, run int64, held []types.UID) (gained, lost []types.UID) {
	if d, ok := p.decided[session]; ok {
		switch {
		case d.shownBy(epoch, run):
			delete(p.decided, session)
		case !d.again():
			held = append(slices.Clone(held), d.member)
		}
	}
	return p.set(session, held)
}

// drop forgets a session; it returns the members that held it.
func (p placedSessions) drop(session types.UID) (lost []types.UID) {
	delete(p.decided, session)
	_, lost = p.set(session, nil)
	return lost
}

// set makes a session held by just these members.
func (p placedSessions) set(session types.UID, held []types.UID) (gained, lost []types.UID) {
	before := p.members[session]
	for _, m := range held {
		if slices.Contains(before, m) || slices.Contains(gained, m) {
			continue
		}
		gained = append(gained, m)
		if p.sessions[m] == nil {
			p.sessions[m] = map[types.UID]struct{}{}
		}
		p.sessions[m][session] = struct{}{}
	}
	for _, m := range before {
		if slices.Contains(held, m) {
			continue
		}
		lost = append(lost, m)
		if delete(p.sessions[m], session); len(p.sessions[m]) == 0 {
			delete(p.sessions, m)
		}
	}
	switch {
	case len(held) == 0:
		delete(p.members, session)
	case len(gained)+len(lost) > 0:
		p.members[session] = slices.Compact(slices.Sorted(slices.Values(held)))
	}
	return gained, lost
}

// HeldBy lists the members that hold a session or may still do so.
func HeldBy(s *v1alpha1.VDISession) []types.UID {
	var held []types.UID
	if p := s.Status.Placement; p != nil {
		held = append(held, p.ClusterUID)
	}
	for _, r := range s.Status.Releasing {
		held = append(held, r.ClusterUID)
	}
	return held
}

// Observe counts a session as it stands on the hub; gone is for one that is
// there no more.
func (f *Fleet) Observe(s *v1alpha1.VDISession, gone bool) {
	f.mu.Lock()
	var gained, lost []types.UID
	if gone {
		lost = f.placed.drop(s.UID)
		for _, uid := range lost {
			f.ledger.Release(s.UID, s.Status.Epoch+1, uid)
		}
	} else {
		run := int64(0)
		if p := s.Status.Placement; p != nil {
			run = p.Run
		}
		gained, lost = f.placed.observe(s.UID, s.Status.Epoch, run, HeldBy(s))
	}
	var changes []Change
	note := func(kind ChangeKind, uids []types.UID) {
		for _, uid := range uids {
			if m := f.uids[uid]; m != nil {
				changes = append(changes, Change{Kind: kind, Member: m.name, UID: uid})
			}
		}
	}
	note(MemberSessions, gained)
	note(MemberRoom, lost)
	f.mu.Unlock()
	for _, c := range changes {
		f.tell(c)
	}
}
