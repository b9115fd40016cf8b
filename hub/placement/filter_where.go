package placement

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// regionFilter: the member is in a region that the session and its policy
// both allow.
type regionFilter struct{}

func (regionFilter) Name() string { return "Regions" }

func (regionFilter) Check(q *query, c *Candidate, _ *account) bool {
	return brokenRegion(q, c) == nil
}

func (regionFilter) Explain(q *query, c *Candidate, _ *account) lack {
	rule := brokenRegion(q, c)
	where := "outside " + strings.Join(rule.regions, ", ")
	return lack{one: "is " + where, many: "are " + where, remedy: "see " + rule.field}
}

func brokenRegion(q *query, c *Candidate) *regionRule {
	for i := range q.regions {
		if !slices.Contains(q.regions[i].regions, c.Region) {
			return &q.regions[i]
		}
	}
	return nil
}

// selectorFilter: the member's labels match the selectors of the session, its
// policy and its template.
type selectorFilter struct{}

func (selectorFilter) Name() string { return "ClusterSelector" }

func (selectorFilter) Check(q *query, c *Candidate, _ *account) bool {
	return brokenSelector(q, c) == nil
}

func (selectorFilter) Explain(q *query, c *Candidate, _ *account) lack {
	rule := brokenSelector(q, c)
	return lack{
		one:    "does not match " + rule.field,
		many:   "do not match " + rule.field,
		remedy: rule.text,
	}
}

func brokenSelector(q *query, c *Candidate) *clusterRule {
	for i := range q.selectors {
		if !q.selectors[i].selector.Matches(labels.Set(c.Labels)) {
			return &q.selectors[i]
		}
	}
	return nil
}

// homeFilter: the user's home lies in this member, or nowhere yet.
type homeFilter struct{}

func (homeFilter) Name() string { return "Home" }

func (homeFilter) Check(q *query, c *Candidate, _ *account) bool {
	return q.Home == nil || q.Home.UID == c.UID
}

func (homeFilter) Explain(q *query, _ *Candidate, _ *account) lack {
	return lack{
		one:    "does not hold the user's home",
		many:   "do not hold the user's home",
		remedy: "it is in " + q.Home.Name,
	}
}
