package placement

import (
	"k8s.io/apimachinery/pkg/types"
)

// Sketch is a copy to try things on for one session: nothing that is done to it
// touches this ledger. Of the reservations of others it holds what they cost, not
// whose they are, so that it is made in a time that grows with the members and
// the questions and not with the reservations. Those of the session are in it
// where kept says so of the member, and set aside elsewhere.
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

// adopt is the question of another ledger as this one's.
func (l *Ledger) adopt(q *question) *question {
	key := questionKey{q.template, q.shape.key}
	own := l.questions[key]
	if own == nil {
		own = &question{template: q.template, shape: q.shape}
		l.questions[key] = own
	}
	return own
}
