// Package link is the agent's end of the stream between the hub and the
// agents of its members (docs/design.md, section 5).
//
// It receives orders for agent/assignment. It sends the inventory when a stream opens, and
// then changed statuses, results of orders, and capacity.
//
// Machine, the state machine of one stream, Reporter, the set of assignments to report,
// Results, the set of answers, and Summary, the digests of all assignments, are pure.
// Client, stream and lease are their I/O.
//
// Invariants:
//   - Reports are rendered when they are sent: memory is O(assignments) however long the
//     hub is unreachable.
//   - A hub of a lower term than one that was seen is refused, in this process and in
//     later ones.
//   - A hub that does not acknowledge, answer or read for too long is disconnected.
//   - Nothing in the member waits for this package while the hub is unreachable.
package link
