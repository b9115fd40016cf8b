package placement

// limitFilter requires that the session asks for no resource of which it would have no
// limit. One that was stored before that was refused would be charged nothing and use it
// all.
var limitFilter = filter{
	name:  "Limits",
	check: func(q *query, _ *Candidate, _ *account) bool { return q.noLimit == "" },
	explain: func(q *query, _ *Candidate, _ *account) lack {
		what := "no session with 0 of " + string(q.noLimit)
		return lack{one: "takes " + what, many: "take " + what,
			remedy: "it would have no limit: delete it and create it with more"}
	},
}
