package placement

import (
	"fmt"
)

// reportedFilter: the member has said what room it has.
type reportedFilter struct{}

func (reportedFilter) Name() string { return "Reported" }

func (reportedFilter) Check(_ *query, c *Candidate, _ *account) bool { return c.Capacity != nil }

func (reportedFilter) Explain(_ *query, _ *Candidate, _ *account) lack {
	return lack{one: "has not reported its capacity yet", many: "have not reported their capacity yet"}
}

// namespaceFilter: the member's administrator lets sessions of this namespace
// in.
type namespaceFilter struct{}

func (namespaceFilter) Name() string { return "Namespace" }

func (namespaceFilter) Check(q *query, _ *Candidate, a *account) bool { return a.admits(q.Namespace) }

func (namespaceFilter) Explain(q *query, c *Candidate, _ *account) lack {
	return lack{
		one:    "does not admit namespace " + q.Namespace,
		many:   "do not admit namespace " + q.Namespace,
		remedy: fmt.Sprintf("in member %s: kubectl vdi admit %s", c.Name, q.Namespace),
	}
}

// templateFilter: the member can run this revision of the template, room or
// no room.
type templateFilter struct{}

func (templateFilter) Name() string { return "Template" }

func (templateFilter) Check(q *query, _ *Candidate, a *account) bool {
	return a.answer(q.question).available
}

func (templateFilter) Explain(q *query, c *Candidate, a *account) lack {
	if !a.answer(q.question).known {
		what := " not evaluated template " + q.Template.Name + " yet"
		return lack{one: "has" + what, many: "have" + what}
	}
	t := c.Capacity.Templates[q.Template]
	what := fmt.Sprintf("can't run template %s, %s", q.Template.Name, t.Reason)
	return lack{one: what, many: what, remedy: t.Message}
}
