// Package session is a session's life on the hub: accept it, place it, assign
// it to its member, mirror what the member reports, place it anew when its member
// is lost, and finalize it.
//
// Two controllers share the work. The Reconciler is keyed by session and looks
// at the hub alone: it accepts, places, lets rest and resumes, moves what finds no
// node where it is, and lays over what the hub knows of the member's health. The
// MemberReconciler is keyed by (cluster, assignment) and compares what the
// session's status wants of a member with what that member reports: it assigns,
// withdraws, mirrors and records ends.
//
// The ReviewReconciler answers PlacementReviews: it takes a session's steps up to
// its placement on a copy, and writes into the review what would come of them.
//
// Sessions that wait for a place have their turns in the order of package queue:
// by priority, fairly between namespaces and users, by age; and they are decided on
// in that order, whichever workers have them in hand. One that fits nowhere is
// noted with what it asks for, and called when something happens that helps: then
// each different question is asked once, and only as many are called as there is
// room for, and one. Looking again by time is the net below that.
//
// Invariants:
//   - A placement and its epoch are durable in the session's status before any
//     member is told: assignments are made from the hub's cache alone.
//   - No epoch is given twice: status.epoch only grows, under optimistic lock.
//   - No second member gets a session before every earlier one has confirmed
//     that nothing of it runs: what is outstanding stands in status.placement
//     and status.releasing until a member says Stopped, or Refused.
//   - But for a member that is lost: then hub/failover says, by the session's mode,
//     whether it may go without that word. One write places it anew and remembers
//     what was left behind, as superseded in status.releasing. Until that member has
//     said Stopped, or is gone for good, the session is not placed there and its
//     object does not go. Caps of policies count it where it is placed alone; its
//     former member counts it too.
//   - That the hub affirms a placement after a lapse of its member's lease, and that
//     it places the session anew, are writes of one object under one lock.
//   - Whether a desktop is to run stands in status.placement.idle, which the
//     Reconciler alone writes, before the member is told. A session that is idle
//     has given its slot back; it runs again as the next run of its placement,
//     and not before room was reserved.
//   - A report that is older than the attempt, or the run, that is wanted neither
//     fails nor ends it.
//   - Time is reckoned by the hub's clock for the session and by the agent's for
//     the desktop. What is used never shrinks, and stands still between runs.
//   - Only an operator's force-cleanup lets a session go of which something may
//     still run, and that is told.
//   - A member is only ever told to stop what a session's own status says it
//     should not run. A session that the hub does not know is left alone.
//   - A session that is deleted although a member may still run it, because somebody
//     removed its finalizer, is withdrawn by the leader whose watch reports the
//     deletion. An absence from a list is no deletion, and no later leader knows of
//     one. Its home is given back once the home's member reports that nothing of the
//     session runs.
//   - The content of a Secret is in no assignment until that is sent, and in no
//     log and no event ever. A Secret that is not ours is never written.
//   - One optimistic status patch a reconcile, and none when nothing changed.
package session
