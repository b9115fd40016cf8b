// Package failover decides when a session of a lost member may be rescheduled, and
// how many at a time (docs/design.md, section 7).
//
// It is pure: what is known of the member and of the fleet goes in, with the
// time; a Verdict comes out. Where the session goes is hub/placement's to say,
// and hub/member gathers the facts.
//
// Invariants:
//   - A Fence session is never due by time before R has passed since the last
//     renewal that any leader may have granted its member, nor where nothing is
//     known to stop it; a Hold session never is.
//   - Nothing is due by time before this hub has led for R, or while no member
//     outside its own cluster sends heartbeats: then it is the hub that is cut off.
//   - What is due stays so for as long as the facts do.
//   - Over any time no more sessions pass the Brake than its rates allow.
//
// An operator's word that a member is off is no matter of time: only the rates
// hold for it.
package failover
