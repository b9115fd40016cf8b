// Package cache is the scheduler's view of the members: a snapshot of them as hub/member has
// them, the sessions that each has or may still have, and the capacity that is reserved and
// that no report counts yet.
//
// Its part in the lifecycle of a session: hub/scheduling has it decide by hub/placement, and
// reserve what was decided, until the member's reports count the session.
//
// Invariants:
//   - A reservation is made under the same lock as its decision, and the session is counted
//     for its policy under that lock too: caps of a policy hold whatever the hub's cache
//     shows.
//   - A capacity report is in the snapshot before the reservations that it counts are
//     dropped: in between capacity counts twice, never not at all.
//   - The members' lock, which lease renewals need, is held for a snapshot alone, not for a
//     decision.
package cache
