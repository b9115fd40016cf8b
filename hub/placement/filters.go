package placement

import "slices"

// filter is one requirement of a session on its member.
type filter struct {
	// name of the filter, in verdicts.
	name string
	// check reports whether the candidate passes. It runs for every candidate of every
	// decision, so it allocates nothing. The account is that of the candidate's last
	// report, if there is one.
	check func(q *query, c *Candidate, a *account) bool
	// explain returns what a candidate lacks if check is false.
	explain func(q *query, c *Candidate, a *account) lack
	// applies reports whether any candidate may fail, nil if always.
	applies func(q *query) bool
}

// lack is what excludes a candidate. Candidates with the same text are counted together.
type lack struct {
	// one and many complete "1 ..." and "2 ...".
	one, many string
	// remedy is what would help, or further detail; may be empty. Of those that are counted
	// together, the one with the lowest severity is shown, then the first by name.
	remedy   string
	severity int64
}

// text returns one or many, with the remedy.
func (l lack) text(phrase string) string {
	if l.remedy == "" {
		return phrase
	}
	return phrase + " (" + l.remedy + ")"
}

// is returns the lack of a candidate that is something.
func is(what, remedy string) lack {
	return lack{one: "is " + what, many: "are " + what, remedy: remedy}
}

// has returns the lack of a candidate that has something.
func has(what, remedy string) lack {
	return lack{one: "has " + what, many: "have " + what, remedy: remedy}
}

// doesNot returns the lack of a candidate that does not do something.
func doesNot(what, remedy string) lack {
	return lack{one: "does not " + what, many: "do not " + what, remedy: remedy}
}

// pipeline is every filter in order. Those that need an action come before those that pass
// with time, and those that need no report before those that do: a filter after
// reportedFilter may rely on one.
var pipeline = []filter{
	limitFilter,
	readyFilter,
	schedulingFilter,
	taintFilter,
	regionFilter,
	selectorFilter,
	overflowFilter,
	homeFilter,
	reportedFilter,
	namespaceFilter,
	templateFilter,
	refusedFilter,
	capFilter,
	clusterCapFilter,
	capacityFilter,
	policyCapFilter,
}

// checks are the checks of the filters that apply to a query, in order.
func (q *query) checks() []func(q *query, c *Candidate, a *account) bool {
	out := make([]func(q *query, c *Candidate, a *account) bool, 0, len(pipeline))
	for i := range pipeline {
		if f := &pipeline[i]; f.applies == nil || f.applies(q) {
			out = append(out, f.check)
		}
	}
	return out
}

// firstFailing returns the position in the pipeline of the first filter that the
// candidate does not pass, and a negative number if it passes all.
func firstFailing(q *query, c *Candidate, a *account) int {
	return slices.IndexFunc(pipeline, func(f filter) bool { return !f.check(q, c, a) })
}
