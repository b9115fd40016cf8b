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
		c := newAccount()
		c.reported, c.sequence = a.reported, a.sequence
		out.accounts[member] = c
		held := a.reservations[session]
		for _, g := range a.groups {
			count := g.count
			if held != nil && held.class == g.class {
				count--
			}
			if count > 0 {
				own := out.adopt(g.class)
				own.reservations += int(count)
				c.groups = append(c.groups, group{class: own, count: count})
			}
		}
		if held != nil && kept(member) {
			c.add(session, &reservation{epoch: held.epoch, class: out.adopt(held.class)})
		}
	}
	return out
}

// adopt returns this ledger's equivalent of another ledger's request class.
func (l *Ledger) adopt(q *requestClass) *requestClass {
	key := classKey{q.template, q.shape.key}
	own := l.classes[key]
	if own == nil {
		own = &requestClass{template: q.template, shape: q.shape}
		l.classes[key] = own
	}
	return own
}
