package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// account is what the ledger holds of one member: its reservations, also
// grouped by question so that a burst of a thousand like sessions is reckoned as
// one, and what was reckoned from its last report.
type account struct {
	reservations map[types.UID]*reservation
	groups       []group
	// reckoned is whether the groups' spare is up to date.
	reckoned bool

	// The newest report, if there was one.
	reported bool
	sequence uint64

	// What follows was reckoned from this report and is void with it.
	capacity *Capacity
	answers  map[*question]*answer
	// overheads: some template's Pods take more there than is asked for.
	overheads bool
	admitted  map[string]bool
}

// reservation of a session's epoch in a member.
type reservation struct {
	epoch    int64
	question *question
	// acknowledged: reports from countedFrom on count it as used.
	acknowledged bool
	countedFrom  uint64

	// again: the epoch was idle in the member, which may still acknowledge what
	// it was told before. Then only the assignment of the hash expected counts;
	// stored is that which was acknowledged last.
	again            bool
	expected, stored string
}

// group is how many reservations of a question there are; never zero.
type group struct {
	question *question
	count    int64

	// guarded is whether the report speaks of its template. Then spare is how
	// many of its slots are left when all reservations have landed where they
	// hurt it most; below zero, one of its own may not fit.
	guarded bool
	spare   int64
}

// answer is what a report says to a question.
type answer struct {
	// asked is what the member is asked in truth: with the overhead that the
	// template's Pods have there.
	asked *question
	// known is whether the member has judged the template at all.
	known     bool
	available bool
	// slots that the report shows, before reservations and headroom.
	slots int64
	// image is whether a node that may be used has the template's image.
	image bool
	// short is why there are none, once somebody has asked.
	short *lack
}

func newAccount() *account {
	return &account{
		reservations: map[types.UID]*reservation{},
		answers:      map[*question]*answer{},
		admitted:     map[string]bool{},
	}
}

func (a *account) counts(r *reservation) bool {
	meant := !r.again || r.expected != "" && r.expected == r.stored
	return a.reported && r.acknowledged && meant && r.countedFrom <= a.sequence
}

func (a *account) add(session types.UID, r *reservation) {
	a.reservations[session] = r
	a.reckoned = false
	r.question.reservations++
	for i := range a.groups {
		if a.groups[i].question == r.question {
			a.groups[i].count++
			return
		}
	}
	a.groups = append(a.groups, group{question: r.question, count: 1})
}

func (a *account) remove(session types.UID, r *reservation) {
	delete(a.reservations, session)
	a.reckoned = false
	r.question.reservations--
	for i := range a.groups {
		if a.groups[i].question != r.question {
			continue
		}
		if a.groups[i].count--; a.groups[i].count == 0 {
			a.groups = slices.Delete(a.groups, i, i+1)
		}
		return
	}
}

// read makes the account speak of this report; nil is none, or no more.
func (a *account) read(c *Capacity) {
	if a.capacity == c {
		return
	}
	a.capacity, a.reckoned, a.overheads = c, false, false
	clear(a.answers)
	clear(a.admitted)
	if c == nil {
		return
	}
	for key := range c.Templates {
		if len(c.Templates[key].Overhead) > 0 {
			a.overheads = true
		}
	}
}

// answer to a question by the report that was read.
func (a *account) answer(q *question) *answer {
	if known := a.answers[q]; known != nil {
		return known
	}
	out := &answer{asked: q}
	if t, ok := a.capacity.Templates[q.template]; ok {
		out.known, out.available = true, t.Available
		if len(t.Overhead) > 0 {
			out.asked = q.with(t.Overhead)
		}
		if t.Available {
			out.slots = out.asked.shape.slotsIn(t.Buckets)
			out.image = t.ImageNodes > 0
		}
	}
	a.answers[q] = out
	return out
}

// shortage is why the report that was read shows no slots.
func (a *account) shortage(q *question) lack {
	known := a.answer(q)
	if known.short == nil {
		l := shortage(known.asked.shape, a.capacity.Templates[q.template].Buckets)
		known.short = &l
	}
	return *known.short
}

// admits is whether the report that was read names the namespace.
func (a *account) admits(namespace string) bool {
	yes, ok := a.admitted[namespace]
	if !ok {
		yes = slices.Contains(a.capacity.AdmittedNamespaces, namespace)
		a.admitted[namespace] = yes
	}
	return yes
}

// asked is what the member is asked in truth by a question.
func (a *account) asked(q *question) *question {
	if !a.overheads {
		return q
	}
	return a.answer(q).asked
}

// slots left for a question: those of the report, less the most that the
// outstanding reservations can cost, wherever they land. It may be negative.
func (a *account) slots(q *question) int64 {
	slots, asked := a.answer(q).slots, a.asked(q)
	for _, g := range a.groups {
		other := a.asked(g.question)
		other.meet(asked)
		slots -= g.count * other.costIn
	}
	return slots
}

// own is how much more is left for a question where the session itself is set
// aside that sits there: what its reservation costs, or, where the report counts
// it as used, its one slot.
func (a *account) own(session types.UID, q *question) int64 {
	held := a.reservations[session]
	if held == nil {
		return 1
	}
	own := a.asked(held.question)
	own.meet(a.asked(q))
	return own.costIn
}

// harms is whether one more of a question, landing where it hurts most, could
// leave an outstanding reservation without a node: a small session must not
// take the only node that a large one, on its way, fits on.
func (a *account) harms(q *question) bool {
	a.reckon()
	asked := a.asked(q)
	for _, g := range a.groups {
		other := a.asked(g.question)
		other.meet(asked)
		if g.guarded && g.spare < other.costsOf {
			return true
		}
	}
	return false
}

func (a *account) reckon() {
	if a.reckoned {
		return
	}
	for i := range a.groups {
		g := &a.groups[i]
		known := a.answer(g.question)
		g.guarded, g.spare = known.available, known.slots
		for _, other := range a.groups {
			g.spare -= other.count * a.asked(other.question).shape.costIn(a.asked(g.question).shape)
		}
	}
	a.reckoned = true
}
