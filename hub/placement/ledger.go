package placement

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Ledger holds the reservations: capacity that the hub has assigned and no report shows
// yet. There is one for each session and member, from the decision until a capacity report
// counts the assignment, or the member has refused it or confirmed that it stopped. The
// Ledger also caches what was computed from the members' last reports.
//
// A Ledger is not safe for concurrent use: callers that share one lock around it, Place and
// Explain included.
type Ledger struct {
	accounts map[types.UID]*account
	// slots is the number of slots of accounts, free those of removed members, and version the
	// number of reports that were used.
	slots   int
	free    []int
	version uint64
	// decisions counts the queries.
	decisions uint64
	// recent are the accounts of the last candidates, in their order, which rarely changes
	// between two decisions.
	recent []*account
	// arranged is the first of the candidates in whose order the accounts are in memory.
	arranged *Candidate
	// classes are interned, and nodes are those of their templates.
	classes map[classKey]*requestClass
	nodes   map[TemplateKey]*templateNodes
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{accounts: map[types.UID]*account{}, classes: map[classKey]*requestClass{}, nodes: map[TemplateKey]*templateNodes{}}
}

// ReserveFor reserves capacity in a member for a session's epoch, on the nodes that its
// template may use. It is idempotent, and replaces the reservation of an older epoch of the
// session in this member; an epoch older than the reserved one changes nothing.
// Reservations of the session in other members stay until they are counted or released
// there.
func (l *Ledger) ReserveFor(session types.UID, epoch int64, member types.UID, template TemplateKey, r Resources) {
	a := l.account(member)
	if held := a.reservations[session]; held != nil {
		if held.epoch >= epoch {
			return
		}
		a.remove(session, held)
	}
	a.add(session, &reservation{epoch: epoch, class: l.class(template, r)})
}

// ReserveAgain reserves capacity in a member for a session's epoch that was stopped there
// and is to run again. Until Expect names the assignment, no acknowledgment counts: the
// member may still send one for an earlier order. The session's existing reservation there
// is replaced; restore restores the state from before the call.
func (l *Ledger) ReserveAgain(session types.UID, epoch int64, member types.UID, template TemplateKey, r Resources) (restore func()) {
	a := l.account(member)
	before := a.reservations[session]
	switch {
	case before == nil:
		a.add(session, &reservation{epoch: epoch, class: l.class(template, r), again: true})
		return func() { l.Release(session, epoch, member) }
	case before.epoch > epoch:
		return func() {}
	}
	a.remove(session, before)
	held := *before
	held.epoch, held.class, held.again, held.expected = epoch, l.class(template, r), true, ""
	a.add(session, &held)
	return func() {
		a := l.account(member)
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

// Exclude removes a session's reservation in a member, so that it does not compete with
// itself, until include is called.
func (l *Ledger) Exclude(session, member types.UID) (include func()) {
	a := l.account(member)
	held := a.reservations[session]
	if held == nil {
		return func() {}
	}
	a.remove(session, held)
	return func() { a.add(session, held) }
}

// Expect sets which assignment of the session's epoch the member is to acknowledge, by the
// hash of its spec.
func (l *Ledger) Expect(session types.UID, epoch int64, member types.UID, hash string) {
	l.update(session, epoch, member, func(held *reservation) { held.expected = hash })
}

// CountedFrom records that the member has acknowledged the assignment of this hash, and
// that its report of this sequence and every later one count that epoch of the session.
// Other epochs are unaffected.
func (l *Ledger) CountedFrom(session types.UID, epoch int64, member types.UID, hash string, sequence uint64) {
	l.update(session, epoch, member, func(held *reservation) {
		held.acknowledged, held.countedFrom, held.stored = true, sequence, hash
	})
}

// update changes the reservation of an epoch, and removes it if it is then counted.
func (l *Ledger) update(session types.UID, epoch int64, member types.UID, change func(*reservation)) {
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

// Reported records that the report of this sequence is the member's newest, and removes the
// reservations that it counts. Call it in the same step that makes the report the member's
// Capacity.
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

// Release removes a session's reservation in a member up to an epoch: the member refused
// it, or has confirmed that it stopped.
func (l *Ledger) Release(session types.UID, epoch int64, member types.UID) {
	a := l.accounts[member]
	if a == nil {
		return
	}
	if held := a.reservations[session]; held != nil && held.epoch <= epoch {
		a.remove(session, held)
	}
}

// Reset records that a new instance of the member's agent has connected: its sequences
// start over, and the former instance's acknowledgments are void. Every reservation stays
// until CountedFrom names a report of the new one.
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

// Forget removes the state of a member that was removed from the fleet permanently.
func (l *Ledger) Forget(member types.UID) {
	a := l.accounts[member]
	if a == nil {
		return
	}
	for session, held := range a.reservations {
		a.remove(session, held)
	}
	a.member = ""
	delete(l.accounts, member)
	l.free = append(l.free, a.slot)
}

// Outstanding returns how many reservations a member has.
func (l *Ledger) Outstanding(member types.UID) int {
	if a := l.accounts[member]; a != nil {
		return len(a.reservations)
	}
	return 0
}

func (l *Ledger) account(member types.UID) *account {
	a := l.accounts[member]
	if a == nil {
		a = l.newAccount(member)
		l.accounts[member] = a
	}
	return a
}

func (l *Ledger) newAccount(member types.UID) *account {
	if last := len(l.free) - 1; last >= 0 {
		slot := l.free[last]
		l.free = l.free[:last]
		return newAccount(member, slot)
	}
	l.slots++
	return newAccount(member, l.slots-1)
}

// class interns the request class of a template and resources.
func (l *Ledger) class(template TemplateKey, r Resources) *requestClass {
	return l.intern(template, newShape(r))
}

func (l *Ledger) intern(template TemplateKey, s *shape) *requestClass {
	key := classKey{template, s.key}
	q := l.classes[key]
	if q == nil {
		l.evictClasses()
		q = &requestClass{template: template, shape: s, nodes: l.nodesOf(template)}
		l.classes[key] = q
	}
	return q
}

func (l *Ledger) nodesOf(template TemplateKey) *templateNodes {
	n := l.nodes[template]
	if n == nil {
		n = &templateNodes{}
		l.nodes[template] = n
	}
	return n
}

// selects sets the nodeSelector of a template's revision, which does not change. Costs that were computed
// without it are void.
func (l *Ledger) selects(n *templateNodes, selector map[string]string) {
	if n.selector != nil || len(selector) == 0 {
		return
	}
	n.selector = selector
	for _, other := range l.classes {
		other.other = nil
		for i := range other.evaluations {
			if c := other.evaluations[i].class; c != nil {
				c.other = nil
			}
		}
	}
	for _, a := range l.accounts {
		a.spareValid = false
	}
}

// evictClasses removes the classes without reservations once there are too many.
func (l *Ledger) evictClasses() {
	if len(l.classes) < min(maxRequestClasses, maxEvaluations/max(l.slots, 1)) {
		return
	}
	reserved := sets.Set[*requestClass]{}
	for _, a := range l.accounts {
		for _, g := range a.groups {
			reserved.Insert(g.class)
		}
	}
	maps.DeleteFunc(l.classes, func(_ classKey, q *requestClass) bool { return !reserved.Has(q) })
	clear(l.nodes)
	for _, q := range l.classes {
		l.nodes[q.template] = q.nodes
	}
}
