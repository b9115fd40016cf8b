package placement

import (
	"k8s.io/apimachinery/pkg/types"
)

// CopyFor returns a copy for the dry runs of one session; changes to it do not affect this
// ledger. It has the costs of the other sessions' reservations, not their owners, so that the
// time to make it grows with members and request classes and not with reservations. The
// session's own reservations are kept for members where kept is true, and dropped elsewhere.
func (l *Ledger) CopyFor(session types.UID, kept func(member types.UID) bool) *Ledger {
	out := NewLedger()
	for member, a := range l.accounts {
		c := out.newAccount(member)
		c.reported, c.sequence = a.reported, a.sequence
		out.accounts[member] = c
		held := a.reservations[session]
		for _, g := range a.groups {
			count := g.count
			if held != nil && held.class == g.class {
				count--
			}
			if count > 0 {
				own := out.intern(g.class.template, g.class.shape)
				c.setGroups(append(c.groups, group{class: own, count: count}))
			}
		}
		if held != nil && kept(member) {
			c.add(session, &reservation{epoch: held.epoch, class: out.intern(held.class.template, held.class.shape)})
		}
	}
	return out
}
