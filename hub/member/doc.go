// Package member has the registry of the members: their health, and the capacity that each
// last reported.
//
// Its part in the lifecycle of a session: it provides hub/scheduling/cache with the
// snapshot to decide on, and is the Directory in which hub/link looks up the member of a
// certificate. The reports of a member's agent go to the member's cache in
// hub/member/cluster, and its heartbeats to hub/member/health.
//
// Invariants:
//   - The scheduler's cache is never called under the fleet's lock, which it acquires
//     under its own.
//   - Reports and results of members are read and compared outside the lock that lease
//     renewals need: see connection.onCache.
//   - Liveness depends on differences of the hub's receive clock alone. A hub that did not
//     run for a while counts that time against no member: see now.
//   - A member whose access is revoked is Unreachable, and its connection ended, before
//     Register returns.
//   - A status shows lasting changes; a stream that flaps while its agent continues to renew
//     is not written.
package member
