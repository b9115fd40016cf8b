package placement

import (
	"fmt"
)

// reportedFilter requires that the member has reported its capacity.
var reportedFilter = filter{
	name:  "Reported",
	check: func(_ *query, c *Candidate, _ *account) bool { return c.Capacity != nil },
	explain: func(_ *query, _ *Candidate, _ *account) lack {
		return lack{one: "has not reported its capacity yet", many: "have not reported their capacity yet"}
	},
}

// namespaceFilter requires that the member's administrator admits sessions of this
// namespace.
var namespaceFilter = filter{
	name:  "Namespace",
	check: func(q *query, _ *Candidate, a *account) bool { return q.admits(a.namespaces) },
	explain: func(q *query, c *Candidate, _ *account) lack {
		return doesNot("admit namespace "+q.Namespace, fmt.Sprintf("in member %s: kubectl vdi admit %s", c.Name, q.Namespace))
	},
}

// templateFilter requires that the member can run this revision of the template,
// whatever its free capacity.
var templateFilter = filter{
	name: "Template",
	check: func(q *query, _ *Candidate, a *account) bool {
		return a.evaluate(q.class).available
	},
	explain: func(q *query, c *Candidate, a *account) lack {
		if !a.evaluate(q.class).known {
			return has("not evaluated template "+q.Template.Name+" yet", "")
		}
		t := c.Capacity.Templates[q.Template]
		what := fmt.Sprintf("can't run template %s, %s", q.Template.Name, t.Reason)
		return lack{one: what, many: what, remedy: t.Message}
	},
}

// admits reports whether the session's namespace is in a set.
func (q *query) admits(n Namespaces) bool {
	if n != q.asked {
		q.asked, q.admitted = n, n.Has(q.Namespace)
	}
	return q.admitted
}
