package placement

import (
	"k8s.io/apimachinery/pkg/types"
)

// Sketch returns a copy for the dry runs of one session; changes to it do not affect this
// ledger. It has the costs of the other sessions' reservations, not their owners, so that
// the time to make it grows with members and questions and not with reservations. The
// session's own reservations are kept for members where kept is true, and dropped
// elsewhere.
func (l *Ledger) Sketch(session types.UID, kept func(member types.UID) bool) *Ledger {
	out := NewLedger()
	for member, a := range l.accounts {
		c := newAccount()
		c.reported, c.sequence = a.reported, a.sequence
		out.accounts[member] = c
		held := a.reservations[session]
		for _, g := range a.groups {
			count := g.count
			if held != nil && held.question == g.question {
				count--
			}
			if count > 0 {
				own := out.adopt(g.question)
				own.reservations += int(count)
				c.groups = append(c.groups, group{question: own, count: count})
			}
		}
		if held != nil && kept(member) {
			c.add(session, &reservation{epoch: held.epoch, question: out.adopt(held.question)})
		}
	}
	return out
}

// adopt returns this ledger's equivalent of another ledger's question.
func (l *Ledger) adopt(q *question) *question {
	key := questionKey{q.template, q.shape.key}
	own := l.questions[key]
	if own == nil {
		own = &question{template: q.template, shape: q.shape}
		l.questions[key] = own
	}
	return own
}
