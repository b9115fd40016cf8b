package placement

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// requestClass is an equivalence class of capacity requests: a shape, on the nodes that a
// template may use. Equal ones share one value within a Ledger, so that evaluations are
// cached in it and a thousand equal reservations are computed once.
type requestClass struct {
	template TemplateKey
	shape    *shape
	// nodes are those that the template may use; the classes of a template share them.
	nodes *templateNodes

	// evaluations of this class by the slots of the accounts. A decision reads those of all
	// members, so they are in one piece of memory.
	evaluations []evaluation

	// used is the number of the ledger's last decision with the class.
	used uint64

	// costIn is the most that one reservation of this class costs in slots of other on a node that
	// can run both, costsOf the reverse; apart is set if no existing node can. All are cached for the
	// most recent other.
	other           *requestClass
	costIn, costsOf int64
	apart           bool
}

// templateNodes are the nodes that a template may use, as far as a ledger knows. It is read and written only
// with the lock of the ledger.
type templateNodes struct {
	// selector is the nodeSelector of the template; nil until a decision has it.
	selector map[string]string
}

// excludes reports whether no node is among both.
func (n *templateNodes) excludes(other *templateNodes) bool {
	for key, value := range n.selector {
		if required, ok := other.selector[key]; ok && required != value {
			return true
		}
	}
	return false
}

type classKey struct {
	template TemplateKey
	shape    string
}

// maxRequestClasses bounds the cache. Sessions of a template mostly have equal requests, so that
// in practice there are a few.
const maxRequestClasses = 4096

// recentDecisions are those whose classes are evaluated for a report when it arrives.
const recentDecisions = 1024

// maxEvaluations bounds the evaluations of all classes in all members, of 64 bytes each.
const maxEvaluations = 1 << 20

// with returns the class with an overhead added to each Pod. The result is not interned.
func (q *requestClass) with(overhead Resources) *requestClass {
	sum := maps.Clone(overhead)
	for _, n := range q.shape.needs {
		sum[n.name] += n.amount
	}
	return &requestClass{template: q.template, shape: newShape(sum), nodes: q.nodes}
}

// computeCosts computes the costs between this class and another.
func (q *requestClass) computeCosts(other *requestClass) {
	if q.other != other {
		q.other = other
		q.costIn, q.costsOf = q.shape.costIn(other.shape), other.shape.costIn(q.shape)
		q.apart = q.nodes.excludes(other.nodes)
	}
}

// Evaluation is what a member's report has for the classes of recent decisions, so that the next
// decisions read only the results. It changes no decision. Compute takes some 0.2 ms for a
// hundred classes and nodes, and needs no lock of the ledger.
type Evaluation struct {
	member  types.UID
	report  *Capacity
	classes []*requestClass
	results []evaluation
}

// Evaluation returns an evaluation of a report that is not computed yet.
func (l *Ledger) Evaluation(member types.UID, report *Capacity) *Evaluation {
	e := &Evaluation{member: member, report: report}
	for _, q := range l.classes {
		if q.used > 0 && l.decisions-q.used < recentDecisions {
			e.classes = append(e.classes, q)
		}
	}
	return e
}

// Compute computes the results.
func (e *Evaluation) Compute() {
	e.results = make([]evaluation, len(e.classes))
	for i, q := range e.classes {
		e.results[i] = evaluate(e.report, q)
	}
}

// Evaluated makes the ledger use the report, with the results of its evaluation. Evaluations of reports
// of the same member are not concurrent.
func (l *Ledger) Evaluated(e *Evaluation) {
	a := l.accounts[e.member]
	if a == nil {
		return // it was removed
	}
	l.readInto(a, e.report)
	for i, q := range e.classes {
		if out := a.evaluationIn(q); out.version != a.version {
			*out = e.results[i]
			out.version = a.version
		}
	}
}

// evaluate returns what a report has for a class.
func evaluate(report *Capacity, q *requestClass) evaluation {
	out := evaluation{class: q}
	if t, ok := report.Templates[q.template]; ok {
		out.known, out.available = true, t.Available
		if len(t.Overhead) > 0 {
			out.class = q.with(t.Overhead)
		}
		if t.Available {
			out.slots = out.class.shape.slotsIn(t.Buckets)
			out.growth = growthFor(report, t.Growth, out.class.shape)
			out.image = t.ImageNodes > 0
		}
	}
	return out
}
