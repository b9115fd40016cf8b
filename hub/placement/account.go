package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// account is the ledger's state of one member: its reservations, grouped by request class
// so that a burst of a thousand equal sessions is computed once, and what was computed
// from its last report.
type account struct {
	// What every decision reads of every member comes first, close together.

	// member is its UID; empty once it was removed from the ledger. hash is that of the UID, and
	// slot the index in the evaluations of each request class.
	member types.UID
	hash   uint64
	slot   int

	// The fields below were computed from this report and are void with it. version is its number
	// among all reports of all members that the ledger has used.
	capacity *Capacity
	version  uint64
	// overheads is set if some template's Pods use more there than their sessions request.
	overheads bool
	// grows is set if the member has node groups.
	grows bool
	// spareValid reports whether the groups' spare is up to date.
	spareValid bool
	// reserved is set if there are groups, so that those of a member without are not read.
	reserved bool
	// namespaces that the member admits.
	namespaces Namespaces

	groups       []group
	reservations map[types.UID]*reservation

	// The newest report, if there is one.
	reported bool
	sequence uint64
}

// reservation is the capacity that a session's epoch reserves in a member.
type reservation struct {
	epoch int64
	class *requestClass
	// acknowledged is set once the reports from countedFrom on count it as used.
	acknowledged bool
	countedFrom  uint64

	// again is set if the epoch was stopped in the member, which may still acknowledge an
	// earlier order. Then only the assignment whose hash is expected counts; stored is the
	// hash that was acknowledged last.
	again            bool
	expected, stored string
}

// group counts the reservations of a request class; the count is never zero.
type group struct {
	class *requestClass
	count int64

	// covered reports whether the report covers its template. Then spare is how many of
	// its slots are left if every reservation lands where it costs the group most; below
	// zero, one of its own may not fit.
	covered bool
	spare   int64
}

// evaluation is the result of a report for a request class.
type evaluation struct {
	// version of the report; see account.
	version uint64
	// class is the request class with the overhead that the template's Pods have there.
	class *requestClass
	// known reports whether the member has evaluated the template.
	known     bool
	available bool
	// image reports whether a usable node has the template's image.
	image bool
	// slots that the report shows on usable nodes, before reservations and headroom.
	slots int64
	// growth are those on nodes that do not exist yet, nil if there are none.
	growth *growth
	// short is the reason why there are no slots; computed on first use.
	short *lack
}

// total returns the slots of all kinds.
func (e *evaluation) total() int64 { return e.slots + e.growth.total() }

func newAccount(member types.UID, slot int) *account {
	return &account{member: member, hash: hashOf(member), slot: slot, reservations: map[types.UID]*reservation{}}
}

func (a *account) counts(r *reservation) bool {
	meant := !r.again || r.expected != "" && r.expected == r.stored
	return a.reported && r.acknowledged && meant && r.countedFrom <= a.sequence
}

func (a *account) add(session types.UID, r *reservation) {
	a.reservations[session] = r
	a.spareValid = false
	for i := range a.groups {
		if a.groups[i].class == r.class {
			a.groups[i].count++
			return
		}
	}
	a.setGroups(append(a.groups, group{class: r.class, count: 1}))
}

func (a *account) setGroups(groups []group) { a.groups, a.reserved = groups, len(groups) > 0 }

func (a *account) remove(session types.UID, r *reservation) {
	delete(a.reservations, session)
	a.spareValid = false
	for i := range a.groups {
		if a.groups[i].class != r.class {
			continue
		}
		if a.groups[i].count--; a.groups[i].count == 0 {
			a.setGroups(slices.Delete(a.groups, i, i+1))
		}
		return
	}
}

// read makes the account use this report, nil if there is none, which has this version.
func (a *account) read(c *Capacity, version uint64) {
	a.capacity, a.version, a.spareValid, a.overheads, a.grows, a.namespaces = c, version, false, false, false, Namespaces{}
	if c == nil {
		return
	}
	a.namespaces, a.grows = c.AdmittedNamespaces, len(c.NodeGroups) > 0
	for key := range c.Templates {
		if len(c.Templates[key].Overhead) > 0 {
			a.overheads = true
		}
	}
}

// evaluate returns the current report's evaluation of a request class.
func (a *account) evaluate(q *requestClass) *evaluation {
	out := a.evaluationIn(q)
	if out.version != a.version {
		*out = evaluate(a.capacity, q)
		out.version = a.version
	}
	return out
}

// evaluationIn returns the account's evaluation in a request class, which may be of an earlier report.
func (a *account) evaluationIn(q *requestClass) *evaluation {
	if a.slot >= len(q.evaluations) {
		q.evaluations = append(q.evaluations, make([]evaluation, a.slot+1-len(q.evaluations))...)
	}
	return &q.evaluations[a.slot]
}

// shortage returns the reason why the current report shows no slots.
func (a *account) shortage(q *requestClass) lack {
	known := a.evaluate(q)
	if known.short == nil {
		l := shortage(known.class.shape, a.capacity.Templates[q.template])
		known.short = &l
	}
	return *known.short
}

// withOverhead returns the request class with the member's overhead for its template.
func (a *account) withOverhead(q *requestClass) *requestClass {
	if !a.overheads {
		return q
	}
	return a.evaluate(q).class
}

// slots returns the slots of all kinds left for a request class, which known evaluates: those of the
// report, less the most that the outstanding reservations can cost, wherever they land. Each lands on
// one node, of whatever kind. It may be negative.
func (a *account) slots(q *requestClass, known *evaluation) int64 {
	slots := known.total()
	if !a.reserved {
		return slots
	}
	for _, g := range a.groups {
		in, _ := a.costs(g.class, q)
		slots -= g.count * in
	}
	return slots
}

// costs returns the most that one reservation of a class costs in slots of another, and the reverse: none if no
// node, existing or to be added, can run both.
func (a *account) costs(reserved, q *requestClass) (in, of int64) {
	class := a.withOverhead(reserved)
	class.computeCosts(a.withOverhead(q))
	if class.apart && !a.shareGroup(reserved, q) {
		return 0, 0
	}
	return class.costIn, class.costsOf
}

// shareGroup reports whether a node group may add nodes for both classes: a node that it adds for one, whatever
// its labels, is one less for the other.
func (a *account) shareGroup(one, other *requestClass) bool {
	if !a.grows {
		return false
	}
	g, o := a.evaluate(one).growth, a.evaluate(other).growth
	return g != nil && o != nil && slices.ContainsFunc(g.groups, func(mine groupGrowth) bool {
		return slices.ContainsFunc(o.groups, func(theirs groupGrowth) bool { return mine.name == theirs.name })
	})
}

// own returns how many more slots a request class has without the session's own use: the
// cost of its reservation, or one slot if the report counts the session.
func (a *account) own(session types.UID, q *requestClass) int64 {
	held := a.reservations[session]
	if held == nil {
		return 1
	}
	in, _ := a.costs(held.class, q)
	return in
}

// harms reports whether one more of a request class, on the node where it costs most, could
// leave an outstanding reservation without a node: a small session must not take the only
// node that fits a large session with a reservation.
func (a *account) harms(q *requestClass) bool {
	if !a.reserved {
		return false
	}
	a.computeSpare()
	for _, g := range a.groups {
		if _, of := a.costs(g.class, q); g.covered && of > 0 && g.spare < of {
			return true
		}
	}
	return false
}

func (a *account) computeSpare() {
	if a.spareValid {
		return
	}
	for i := range a.groups {
		g := &a.groups[i]
		known := a.evaluate(g.class)
		g.covered, g.spare = known.available, known.total()
		for _, other := range a.groups {
			in, _ := a.costs(other.class, g.class)
			g.spare -= other.count * in
		}
	}
	a.spareValid = true
}
