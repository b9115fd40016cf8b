package placement

import (
	"k8s.io/apimachinery/pkg/types"
)

// Ledger holds the room that the hub has given away and no report shows yet:
// one reservation for each session and member, from the decision until a
// capacity report counts the assignment, or the member has refused it or
// confirmed that it stopped. It also remembers what was reckoned from the
// members' last reports.
//
// A Ledger is for one goroutine at a time: whoever shares one locks around
// it, Place and Explain included.
type Ledger struct {
	accounts  map[types.UID]*account
	questions questions
}

// NewLedger makes an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{accounts: map[types.UID]*account{}, questions: questions{}}
}

// ReserveFor gives room in a member to a session's epoch, on the nodes that
// its template may use. It may be repeated, and replaces what an older epoch
// of the session has in this member; one that is older than what is held
// changes nothing. What the session has in other members stays until it is
// counted or released there.
func (l *Ledger) ReserveFor(session types.UID, epoch int64, member types.UID, template TemplateKey, r Resources) {
	a := l.account(member)
	if held := a.reservations[session]; held != nil {
		if held.epoch >= epoch {
			return
		}
		a.remove(session, held)
	}
	a.add(session, &reservation{epoch: epoch, question: l.question(template, r)})
}

// ReserveAgain gives room in a member to an epoch of a session that was idle
// there and is to run again. Until Expect says of which assignment, no
// acknowledgement counts: the member may have one on its way of what it was told
// before. What the session still has there is taken for that; giveBack makes all
// as if this had not been.
func (l *Ledger) ReserveAgain(session types.UID, epoch int64, member types.UID, template TemplateKey, r Resources) (giveBack func()) {
	a := l.account(member)
	before := a.reservations[session]
	switch {
	case before == nil:
		a.add(session, &reservation{epoch: epoch, question: l.question(template, r), again: true})
		return func() { l.Release(session, epoch, member) }
	case before.epoch > epoch:
		return func() {}
	}
	a.remove(session, before)
	held := *before
	held.epoch, held.question, held.again, held.expected = epoch, l.question(template, r), true, ""
	a.add(session, &held)
	return func() {
		if a.reservations[session] != &held {
			return
		}
		a.remove(session, &held)
		before.acknowledged, before.countedFrom, before.stored = held.acknowledged, held.countedFrom, held.stored
		if !a.counts(before) {
			a.add(session, before)
		}
	}
}

// SetAside takes out what a session has in a member, so that it does not stand
// in its own way, until it is put back.
func (l *Ledger) SetAside(session, member types.UID) (putBack func()) {
	a := l.account(member)
	held := a.reservations[session]
	if held == nil {
		return func() {}
	}
	a.remove(session, held)
	return func() { a.add(session, held) }
}

// Expect says which assignment of the session's epoch the member is to
// acknowledge, by the hash of its spec.
func (l *Ledger) Expect(session types.UID, epoch int64, member types.UID, hash string) {
	l.settle(session, epoch, member, func(held *reservation) { held.expected = hash })
}

// CountedFrom says that the member has acknowledged the assignment of this hash,
// and that its report of this sequence, and every later one, counts the
// session's epoch as it says. Other epochs are not meant.
func (l *Ledger) CountedFrom(session types.UID, epoch int64, member types.UID, hash string, sequence uint64) {
	l.settle(session, epoch, member, func(held *reservation) {
		held.acknowledged, held.countedFrom, held.stored = true, sequence, hash
	})
}

// settle changes the reservation of an epoch, and drops it if it is counted.
func (l *Ledger) settle(session types.UID, epoch int64, member types.UID, change func(*reservation)) {
	a := l.accounts[member]
	if a == nil {
		return
	}
	held := a.reservations[session]
	if held == nil || held.epoch != epoch {
		return
	}
	if change(held); a.counts(held) {
		a.remove(session, held)
	}
}

// Reported says that the report of this sequence is the member's newest, and
// drops the reservations that it counts. Call it together with handing out
// that report as the member's Capacity.
func (l *Ledger) Reported(member types.UID, sequence uint64) {
	a := l.account(member)
	if a.reported && sequence <= a.sequence {
		return
	}
	a.reported, a.sequence = true, sequence
	for session, held := range a.reservations {
		if a.counts(held) {
			a.remove(session, held)
		}
	}
}

// Release gives back what a session has in a member up to an epoch: the
// member refused it, or has confirmed that it stopped.
func (l *Ledger) Release(session types.UID, epoch int64, member types.UID) {
	a := l.accounts[member]
	if a == nil {
		return
	}
	if held := a.reservations[session]; held != nil && held.epoch <= epoch {
		a.remove(session, held)
	}
}

// Reset says that the member speaks through a new instance of its agent: its
// sequences start over, and what the former one promised to count is void.
// Every reservation stays until CountedFrom names a report of the new one.
func (l *Ledger) Reset(member types.UID) {
	a := l.accounts[member]
	if a == nil {
		return
	}
	a.reported, a.sequence = false, 0
	for _, held := range a.reservations {
		held.acknowledged, held.countedFrom, held.stored = false, 0, ""
	}
}

// Forget drops everything about a member that has left the fleet for good.
func (l *Ledger) Forget(member types.UID) {
	a := l.accounts[member]
	if a == nil {
		return
	}
	for session, held := range a.reservations {
		a.remove(session, held)
	}
	delete(l.accounts, member)
}

// Outstanding is how many reservations a member has.
func (l *Ledger) Outstanding(member types.UID) int {
	if a := l.accounts[member]; a != nil {
		return len(a.reservations)
	}
	return 0
}

func (l *Ledger) account(member types.UID) *account {
	a := l.accounts[member]
	if a == nil {
		a = newAccount()
		l.accounts[member] = a
	}
	return a
}

// question interns what is asked for.
func (l *Ledger) question(template TemplateKey, r Resources) *question {
	s := newShape(r)
	key := questionKey{template, s.key}
	q := l.questions[key]
	if q == nil {
		l.makeRoom()
		q = &question{template: template, shape: s}
		l.questions[key] = q
	}
	return q
}

// makeRoom forgets the questions that no reservation is made of, and every
// answer, once there are too many.
func (l *Ledger) makeRoom() {
	if len(l.questions) < maxQuestions {
		return
	}
	for key, q := range l.questions {
		if q.reservations == 0 {
			delete(l.questions, key)
		}
	}
	for _, a := range l.accounts {
		clear(a.answers)
	}
}
