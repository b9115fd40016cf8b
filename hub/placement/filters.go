package placement

// filter is one reason for which a member can't take a session.
type filter interface {
	// Name of the filter, in verdicts.
	Name() string
	// Check is whether the candidate passes. It is called for every candidate
	// of every decision, so it builds nothing. The account speaks of the
	// candidate's last report, if it has made one.
	Check(q *query, c *Candidate, a *account) bool
	// Explain says what a candidate lacks for which Check was false.
	Explain(q *query, c *Candidate, a *account) lack
}

// lack is what keeps a candidate away. Candidates with the same words are
// counted together.
type lack struct {
	// one and many complete "1 ..." and "2 ...".
	one, many string
	// remedy is what would help, or what is known more; may be empty. Of
	// those that are counted together, that of the lowest severity is shown,
	// and then that of the first by name.
	remedy   string
	severity int64
}

// pipeline is every filter in order. Those that only a person can mend come
// before those that time mends, and those that need no report before those
// that do: a filter after reportedFilter may rely on one.
var pipeline = []filter{
	limitFilter{},
	readyFilter{},
	schedulingFilter{},
	taintFilter{},
	regionFilter{},
	selectorFilter{},
	overflowFilter{},
	homeFilter{},
	reportedFilter{},
	namespaceFilter{},
	templateFilter{},
	refusedFilter{},
	capFilter{},
	clusterCapFilter{},
	capacityFilter{},
	policyCapFilter{},
}

// firstFailing is the first filter that the candidate doesn't pass, nil if it
// passes all.
func firstFailing(q *query, c *Candidate, a *account) filter {
	for _, f := range pipeline {
		if !f.Check(q, c, a) {
			return f
		}
	}
	return nil
}
