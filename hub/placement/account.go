package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// account is the ledger's state of one member: its reservations, grouped by question so
// that a burst of a thousand equal sessions is computed once, and what was computed from
// its last report.
type account struct {
	reservations map[types.UID]*reservation
	groups       []group
	// reckoned reports whether the groups' spare is up to date.
	reckoned bool

	// The newest report, if there is one.
	reported bool
	sequence uint64

	// The fields below were computed from this report and are void with it.
	capacity *Capacity
	answers  map[*question]*answer
	// overheads is set if some template's Pods use more there than their sessions request.
	overheads bool
	admitted  map[string]bool
}

// reservation is the capacity that a session's epoch reserves in a member.
type reservation struct {
	epoch    int64
	question *question
	// acknowledged is set once the reports from countedFrom on count it as used.
	acknowledged bool
	countedFrom  uint64

	// again is set if the epoch was stopped in the member, which may still acknowledge an
	// earlier order. Then only the assignment whose hash is expected counts; stored is the
	// hash that was acknowledged last.
	again            bool
	expected, stored string
}

// group counts the reservations of a question; the count is never zero.
type group struct {
	question *question
	count    int64

	// guarded reports whether the report covers its template. Then spare is how many of its
	// slots are left if every reservation lands where it costs the group most; below zero,
	// one of its own may not fit.
	guarded bool
	spare   int64
}

// answer is a report's answer to a question.
type answer struct {
	// asked is the question with the overhead that the template's Pods have there.
	asked *question
	// known reports whether the member has evaluated the template.
	known     bool
	available bool
	// slots that the report shows, before reservations and headroom.
	slots int64
	// image reports whether a usable node has the template's image.
	image bool
	// short is the reason why there are no slots; computed on first use.
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

// read makes the account use this report; nil stands for no report.
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

// answer returns the current report's answer to a question.
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

// shortage returns the reason why the current report shows no slots.
func (a *account) shortage(q *question) lack {
	known := a.answer(q)
	if known.short == nil {
		l := shortage(known.asked.shape, a.capacity.Templates[q.template].Buckets)
		known.short = &l
	}
	return *known.short
}

// admits reports whether the current report admits the namespace.
func (a *account) admits(namespace string) bool {
	yes, ok := a.admitted[namespace]
	if !ok {
		yes = slices.Contains(a.capacity.AdmittedNamespaces, namespace)
		a.admitted[namespace] = yes
	}
	return yes
}

// asked returns the question with the member's overhead for its template.
func (a *account) asked(q *question) *question {
	if !a.overheads {
		return q
	}
	return a.answer(q).asked
}

// slots returns the slots left for a question: those of the report, less the most that the
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

// own returns how many more slots a question has if the session's own use is excluded: what
// its reservation costs, or, where the report counts it as used, its one slot.
func (a *account) own(session types.UID, q *question) int64 {
	held := a.reservations[session]
	if held == nil {
		return 1
	}
	own := a.asked(held.question)
	own.meet(a.asked(q))
	return own.costIn
}

// harms reports whether one more of a question, landing where it costs most, could leave an
// outstanding reservation without a node: a small session must not take the only node that
// fits a large session which is already reserved.
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
