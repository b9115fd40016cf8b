// Package session is a session's life on the hub: accept it, place it, mirror what its
// member reports, reschedule it when that is lost, and finalize it.
//
// The Reconciler is the only writer of a session's status. It gathers the session and what
// the members report of it, takes it through its steps, and writes once: epochs that a
// member proves, confirmed stops and refusals come first, then the member's status, then
// what the hub decides. Package assignment makes the members match.
//
// Package scheduling decides on sessions that ask for capacity, in their order. Until it
// has, a pass of the session decides and writes nothing.
//
// Invariants:
//   - A placement and its epoch are durable in the session's status before any
//     member is told: assignments are made from the hub's cache alone.
//   - No epoch is given twice: status.epoch only grows, under optimistic lock.
//   - No second member gets a session before every earlier one has confirmed
//     that nothing of it runs: what is outstanding stands in status.placement
//     and status.releasing until a member says Stopped, or Refused.
//   - But for a member that is lost: then hub/failover says, by the session's mode,
//     whether it may go without that word. One write reschedules it and remembers
//     what was left behind, as superseded in status.releasing. Until that member has
//     said Stopped, or is gone for good, the session is not placed there and its
//     object does not go. Caps of policies count it where it is placed alone; its
//     former member counts it too.
//   - That the hub affirms a placement after a lapse of its member's lease, and that
//     it reschedules the session, are writes of one object under one lock.
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
//   - The home of a session that is gone although a member may still run it, because
//     its finalizer was removed by hand, is released once the home's member reports that
//     nothing of the session runs.
//   - One optimistic status patch a reconcile, and none when nothing changed.
package session
