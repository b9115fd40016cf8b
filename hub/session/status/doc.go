// Package status has the predicates on a session's status, and its permitted changes:
// which conditions lead to Ready, phase and message, what a member's report changes, how
// runs use up the session's time, and what is outstanding where.
//
// The package is pure: no client, no clock, no goroutine. Time is a parameter.
//
// A run of the desktop begins when it is first ready and ends when the desktop is no
// longer to run. Only runs count toward the time limit. The agent keeps the time, by
// a clock that cannot be set, and ends a desktop whose time is over. The hub's wall
// clock can be set and differs between replicas: it serves for what is shown, and for
// a member that is unreachable. What the hub charged by it is replaced by the agent's
// account of the same run.
package status
