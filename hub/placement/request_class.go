package placement

import "maps"

// requestClass is an equivalence class of capacity requests: a shape, on the nodes that a
// template may use. Equal ones share one value within a Ledger, so that evaluations are
// cached in it and a thousand equal reservations are computed once.
type requestClass struct {
	template TemplateKey
	shape    *shape

	// evaluations of this class by the slots of the accounts. A decision reads those of all
	// members, so they are in one piece of memory.
	evaluations []evaluation

	// used is the number of the ledger's last decision with the class.
	used uint64

	// costIn is the most that one reservation of this class costs in slots of other,
	// costsOf the reverse. Both are cached for the most recent other.
	other           *requestClass
	costIn, costsOf int64
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
	return &requestClass{template: q.template, shape: newShape(sum)}
}

// computeCosts computes the costs between this class and another.
func (q *requestClass) computeCosts(other *requestClass) {
	if q.other != other {
		q.other = other
		q.costIn, q.costsOf = q.shape.costIn(other.shape), other.shape.costIn(q.shape)
	}
}
