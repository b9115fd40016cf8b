package placement

import "maps"

// question is what room is asked for: a shape, on the nodes that a template
// may use. Equal questions share one within a Ledger, so that answers are
// remembered by its address and a thousand like reservations are reckoned as
// one.
type question struct {
	template TemplateKey
	shape    *shape

	// reservations that are made of this question, in all members.
	reservations int

	// What one of it can cost in slots of the question other, and one of the
	// other in slots of it: remembered for the other asked last.
	other           *question
	costIn, costsOf int64
}

// questions by what they ask.
type questions map[questionKey]*question

type questionKey struct {
	template TemplateKey
	shape    string
}

// maxQuestions bounds what is remembered. Sessions of a template mostly ask
// for the same, so that in practice there are a few.
const maxQuestions = 4096

// with is the question where each Pod takes so much besides. It is not shared.
func (q *question) with(overhead Resources) *question {
	sum := maps.Clone(overhead)
	for _, n := range q.shape.needs {
		sum[n.name] += n.amount
	}
	return &question{template: q.template, shape: newShape(sum)}
}

// meet reckons the costs between this question and another.
func (q *question) meet(other *question) {
	if q.other != other {
		q.other = other
		q.costIn, q.costsOf = q.shape.costIn(other.shape), other.shape.costIn(q.shape)
	}
}
