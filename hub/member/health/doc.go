// Package health computes the health of a member from its heartbeats.
//
// It is pure: time is a parameter, and only differences of the hub's own receive clock
// count, so that setting the wall clock changes nothing.
//
// Invariant: failures that this hub did not observe count against no member. Hysteresis
// and quarantine begin with a loss of Ready that it observed itself, and a hub that did
// not run for a while (a frozen process) has observed nothing (PauseDetector).
package health
