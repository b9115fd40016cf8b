package placement

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// regionFilter requires that the member is in a region that both the session and its policy
// allow.
var regionFilter = filter{
	name:    "Regions",
	applies: func(q *query) bool { return len(q.regions) > 0 },
	check: func(q *query, c *Candidate, _ *account) bool {
		return violatedRegion(q, c) == nil
	},
	explain: func(q *query, c *Candidate, _ *account) lack {
		rule := violatedRegion(q, c)
		return rule.once(func() lack { return is("outside "+strings.Join(rule.regions, ", "), "see "+rule.field) })
	},
}

func violatedRegion(q *query, c *Candidate) *regionRule {
	for i := range q.regions {
		if !slices.Contains(q.regions[i].regions, c.Region) {
			return &q.regions[i]
		}
	}
	return nil
}

// selectorFilter requires that the member's labels match the selectors of the session, its
// policy and its template.
var selectorFilter = filter{
	name:    "ClusterSelector",
	applies: func(q *query) bool { return len(q.selectors) > 0 },
	check: func(q *query, c *Candidate, _ *account) bool {
		return violatedSelector(q, c) == nil
	},
	explain: func(q *query, c *Candidate, _ *account) lack {
		rule := violatedSelector(q, c)
		return rule.once(func() lack { return doesNot("match "+rule.field, rule.text) })
	},
}

func violatedSelector(q *query, c *Candidate) *clusterRule {
	for i := range q.selectors {
		if !q.selectors[i].selector.Matches(labels.Set(c.Labels)) {
			return &q.selectors[i]
		}
	}
	return nil
}

// homeFilter requires that this member, or none yet, holds the user's home.
var homeFilter = filter{
	name:    "Home",
	applies: func(q *query) bool { return q.Home != nil },
	check: func(q *query, c *Candidate, _ *account) bool {
		return q.Home == nil || q.Home.UID == c.UID
	},
	explain: func(q *query, _ *Candidate, _ *account) lack {
		return doesNot("hold the user's home", "it is in "+q.Home.Name)
	},
}
