// Package failover decides when a session of a lost member may be rescheduled, and
// how many at a time (docs/design.md, section 7).
//
// It is pure: the input is the state of the member and of the fleet, with the time; the output
// is a Verdict. hub/placement decides on the member, and hub/member gathers the facts.
//
// Invariants:
//   - A Fence session is never due by time before R has passed since the last renewal
//     that any leader may have granted its member, nor if nothing is known to stop it;
//     a Hold session never is.
//   - Nothing is due by time before this hub has led for R, or while no member
//     outside its own cluster sends heartbeats: then it is the hub that is cut off.
//   - A due session stays due for as long as the facts do not change.
//   - Over any time the RateLimit permits no more sessions than its rates allow.
//
// An operator override that a member is off does not depend on time: only the rates
// apply to it.
package failover
