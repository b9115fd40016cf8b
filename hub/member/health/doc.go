// Package health computes the health of a member from its heartbeats.
//
// It is pure: time is a parameter, and of the hub's own receive clock only
// differences count, so that a wall clock that is set changes nothing.
//
// Invariant: what this hub did not see go wrong counts against no member.
// Hysteresis and quarantine begin with a fall from Ready that it saw itself, and a
// hub that did not run for a while (a frozen process) has seen nothing
// (PauseDetector).
package health
