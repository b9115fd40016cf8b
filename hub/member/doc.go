// Package member knows who the members are, how healthy each is, and what each last
// reported of its capacity.
//
// Its place in the walk of a session: it hands hub/placement the snapshot to decide
// on, and is the Directory that hub/link asks whom a certificate speaks for. What a
// member's agent reports goes to the member's cache in hub/member/cluster, and its
// heartbeats to hub/member/health.
//
// Invariants:
//   - A reservation is made under the same lock as the decision that needs it, and
//     so is a session counted for the policy by which it goes there: caps of a
//     policy hold whatever the hub's cache shows.
//   - Reports and results of members are read and compared outside the lock that
//     lease renewals need: see connection.onCache.
//   - Only the hub's receive clock counts for liveness, and of it only differences. A
//     hub that did not run for a while has seen nothing: see now.
//   - A member whose access is revoked is Unreachable, and its connection ended,
//     before Register returns.
//   - A status says what changed; a stream that flaps while its agent goes on
//     renewing is not written of.
package member
