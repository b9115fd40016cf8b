package fleet

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// placedSessions counts which sessions each member holds or may still hold:
// placed there, or given up and not confirmed stopped.
type placedSessions map[types.UID]map[types.UID]struct{}

func (p placedSessions) count(member types.UID) int32 { return int32(len(p[member])) } //nolint:gosec // a member holds no billions

// add counts a session for a member, and says whether it was not yet.
func (p placedSessions) add(session, member types.UID) bool {
	if p[member] == nil {
		p[member] = map[types.UID]struct{}{}
	}
	_, had := p[member][session]
	p[member][session] = struct{}{}
	return !had
}

// set makes a session held by just these members; it returns those whose
// count changed.
func (p placedSessions) set(session types.UID, held []types.UID) []types.UID {
	var changed []types.UID
	want := make(map[types.UID]bool, len(held))
	for _, m := range held {
		want[m] = true
		if p.add(session, m) {
			changed = append(changed, m)
		}
	}
	for m, sessions := range p {
		if _, ok := sessions[session]; ok && !want[m] {
			delete(sessions, session)
			changed = append(changed, m)
		}
	}
	return changed
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
	held := HeldBy(s)
	if gone {
		held = nil
	}
	f.mu.Lock()
	var changes []Change
	for _, uid := range f.placed.set(s.UID, held) {
		if m := f.uids[uid]; m != nil {
			changes = append(changes, Change{Kind: MemberSessions, Member: m.name, UID: uid})
		}
	}
	f.mu.Unlock()
	for _, c := range changes {
		f.tell(c)
	}
}
