package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// transientFilters are the filters whose failures end without action, as sessions end and
// agents report. The others persist until an operator or user acts.
var transientFilters = map[string]bool{
	reportedFilter.name:   true,
	refusedFilter.name:    true,
	capFilter.name:        true,
	clusterCapFilter.name: true,
	capacityFilter.name:   true,
}

// tally counts the candidates that lack the same thing.
type tally struct {
	stage int // of the filter in the pipeline
	lack  lack
	count int
	first string // the name of the candidate whose remedy is shown
}

// unschedulable summarizes what the candidates lack, as counts with remedies, ordered by
// whether it needs an action or passes with time, then by the number of excluded members,
// then by the pipeline.
func unschedulable(q *query, candidates []Candidate, ledger *Ledger) Decision {
	tallies := map[string]*tally{}
	for i := range candidates {
		c := &candidates[i]
		a := ledger.read(i, c)
		stage := firstFailing(q, c, a)
		l := pipeline[stage].explain(q, c, a)
		t := tallies[l.many]
		if t == nil {
			tallies[l.many] = &tally{stage: stage, lack: l, count: 1, first: c.Name}
			continue
		}
		t.count++
		if cmp.Or(cmp.Compare(l.severity, t.lack.severity), cmp.Compare(c.Name, t.first)) < 0 {
			t.lack, t.first = l, c.Name
		}
	}
	return Decision{Reason: v1alpha1.ReasonUnschedulable, Message: summary(len(candidates), tallies)}
}

func summary(candidates int, tallies map[string]*tally) string {
	sorted := slices.SortedFunc(maps.Values(tallies), func(a, b *tally) int {
		return cmp.Or(a.transience()-b.transience(), cmp.Compare(b.count, a.count), cmp.Compare(a.stage, b.stage), strings.Compare(a.lack.many, b.lack.many))
	})
	parts := make([]string, 0, len(sorted))
	for _, t := range sorted {
		parts = append(parts, t.text())
	}
	return fmt.Sprintf("%s: %s", clusters(candidates), shorten(parts))
}

// maxParts bounds the message if every member lacks something else.
const maxParts = 8

func shorten(parts []string) string {
	if len(parts) > maxParts {
		parts = append(parts[:maxParts:maxParts], fmt.Sprintf("and %d more reasons", len(parts)-maxParts))
	}
	return strings.Join(parts, ", ")
}

// transience returns 1 for a lack that passes with time, and 0 for others.
func (t *tally) transience() int {
	if transientFilters[pipeline[t.stage].name] {
		return 1
	}
	return 0
}

func (t *tally) text() string {
	phrase := t.lack.many
	if t.count == 1 {
		phrase = t.lack.one
	}
	return strconv.Itoa(t.count) + " " + t.lack.text(phrase)
}

func clusters(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return strconv.Itoa(n) + " clusters"
}
