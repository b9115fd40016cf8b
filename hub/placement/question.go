package placement

import "maps"

// question is an equivalence class of capacity requests: a shape, on the nodes that a
// template may use. Equal questions share one value within a Ledger, so that answers are
// cached by its address and a thousand equal reservations are computed once.
type question struct {
	template TemplateKey
	shape    *shape

	// reservations of this question, in all members.
	reservations int

	// costIn is the most that one reservation of this question costs in slots of other,
	// costsOf the reverse. Both are cached for the most recent other.
	other           *question
	costIn, costsOf int64
}

type questionKey struct {
	template TemplateKey
	shape    string
}

// maxQuestions bounds the cache. Sessions of a template mostly have equal requests, so that
// in practice there are a few.
const maxQuestions = 4096

// with returns the question with an overhead added to each Pod. The result is not interned.
func (q *question) with(overhead Resources) *question {
	sum := maps.Clone(overhead)
	for _, n := range q.shape.needs {
		sum[n.name] += n.amount
	}
	return &question{template: q.template, shape: newShape(sum)}
}

// meet computes the costs between this question and another.
func (q *question) meet(other *question) {
	if q.other != other {
		q.other = other
		q.costIn, q.costsOf = q.shape.costIn(other.shape), other.shape.costIn(q.shape)
	}
}
