// Package session is a session's life on the hub: accept it, place it, assign
// it to its member, mirror what the member reports, and finalize it.
//
// Three controllers share the work. The Reconciler is keyed by session and looks
// at the hub alone: it accepts, places, lets rest and resumes, and lays over what
// the hub knows of the member's health. The MemberReconciler is keyed by
// (cluster, assignment) and compares what the session's status wants of a member
// with what that member reports: it assigns, withdraws, mirrors and records ends,
// and makes the Secrets that travel. The HomeReconciler is keyed by home and frees
// those whose session needs them no more.
//
// Invariants:
//   - A placement and its epoch are durable in the session's status before any
//     member is told: assignments are made from the hub's cache alone.
//   - No epoch is given twice: status.epoch only grows, under optimistic lock.
//   - No second member gets a session before every earlier one has confirmed
//     that nothing of it runs: what is outstanding stands in status.placement
//     and status.releasing until a member says Stopped, or Refused.
//   - A member is only ever told to stop what a session's own status says it
//     should not run. A session that the hub does not know is left alone.
//   - A PerUser home is one session's at a time: its record names the session
//     before that session's status says that its desktop is to run, and until a
//     member has confirmed that it does not.
//   - The content of a Secret is in no assignment until that is sent, and in no
//     log and no event ever. A Secret that is not ours is never written.
//   - One optimistic status patch a reconcile, and none when nothing changed.
package session
