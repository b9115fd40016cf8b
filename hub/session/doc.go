// Package session implements the lifecycle of a session on the hub: accept it, place it, mirror
// its member's reports, reschedule it when the member is lost, and finalize it.
//
// The Reconciler is the only writer of a session's status. It gathers the state that determines
// the session's next status, its members' reports included, has package lifecycle compute a
// plan, and executes that in one write. Package assignment makes the members match.
//
// Package scheduling decides on sessions that request capacity, in their order. Until it has, a
// pass of the session decides and writes nothing.
//
// Invariants:
//   - A placement and its epoch are durable in the session's status before any member gets
//     an order: assignments are made from the hub's cache alone.
//   - No epoch is assigned twice: status.epoch only grows, under optimistic lock.
//   - No second member gets a session before every earlier one has confirmed that nothing of
//     it runs: status.placement and status.releasing list what is outstanding until a member
//     reports Stopped or Refused.
//   - The exception is a lost member: hub/failover then decides, by the session's mode,
//     whether it may be rescheduled without that confirmation. One write reschedules it and
//     records what was left behind, as superseded in status.releasing. Until that member has
//     reported Stopped, or was removed permanently, the session is not placed there and its
//     object is not removed. Caps of policies count it only where it is placed; its former
//     member counts it too.
//   - The hub affirms a placement after a lapse of its member's lease, and reschedules the
//     session, by writes of one object under one lock.
//   - status.placement.idle records whether a desktop is to run. Only the Reconciler writes
//     it, before the member gets the order. A stopped session has released its slot; it runs
//     again as the next run of its placement, and only after capacity was reserved.
//   - A report that is older than the current attempt or run neither fails nor ends it.
//   - Times of the session are by the hub's clock, those of the desktop by the agent's. The
//     time used never shrinks, and does not grow between runs.
//   - Only an operator's force-cleanup removes the finalizer of a session that may still run
//     somewhere, and an event reports that.
//   - The home of a session that is gone although a member may still run it, because its
//     finalizer was removed by hand, is released once the home's member reports that nothing
//     of the session runs.
//   - There is one optimistic status patch per reconcile, and none when nothing changed.
package session
