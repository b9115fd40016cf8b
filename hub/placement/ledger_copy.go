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
				c.setGroups(append(c.groups, group{class: out.like(g.class), count: count}))
			}
		}
		if held != nil && kept(member) {
			c.add(session, &reservation{epoch: held.epoch, class: out.like(held.class)})
		}
	}
	return out
}

// like interns a class of another ledger.
func (l *Ledger) like(q *requestClass) *requestClass {
	own := l.intern(q.template, q.shape)
	own.nodes.selector = q.nodes.selector
	return own
}
