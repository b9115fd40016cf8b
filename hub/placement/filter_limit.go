package placement

// limitFilter requires that the session requests no resource for which it would get no
// limit. A session from before admission rejected such requests would be charged nothing
// and could use everything.
var limitFilter = filter{
	name:    "Limits",
	applies: func(q *query) bool { return q.noLimit != "" },
	check:   func(q *query, _ *Candidate, _ *account) bool { return q.noLimit == "" },
	explain: func(q *query, _ *Candidate, _ *account) lack {
		what := "no session with 0 of " + string(q.noLimit)
		return lack{one: "accepts " + what, many: "accept " + what,
			remedy: "it would have no limit: delete it and create it with more"}
	},
}
