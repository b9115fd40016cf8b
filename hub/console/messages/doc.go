// Package messages turns a session into what its user reads: a state, a sentence of why and what
// follows, the steps to its desktop, and the actions that its user has. The texts name no field, no
// object of a cluster and no command; the condition's own message, for operators, is in Details.
//
// The package is pure: no client, no clock, no goroutine. Time is a parameter.
//
// Invariants: every reason that a condition of a session can have has a sentence, and what a view
// contains depends on the session, its template and the time alone, not on who looks.
package messages
