// Package cache is the scheduler's view of the members: a snapshot of them from hub/member,
// the sessions that each has or may still have, and the reserved capacity that no report
// counts yet.
//
// In the lifecycle of a session, hub/scheduling calls it to decide with hub/placement and to
// reserve the capacity until the member's reports count the session.
//
// Invariants:
//   - A reservation is made under the same lock as its decision, and the session is counted
//     for its policy under that lock too: a policy's caps hold even while the hub's cache
//     is outdated.
//   - A capacity report is in the snapshot before the reservations that it counts are
//     dropped: in between it counts twice, but is never uncounted.
//   - The members' lock, which lease renewals need, is held for a snapshot only, not for a
//     decision.
package cache
