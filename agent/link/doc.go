// Package link is the agent's end of the stream between the hub and the
// agents of its members (docs/design.md, section 5).
//
// It receives orders for agent/assignment, and sends the inventory when a stream opens,
// then the newest status of what changed, results of orders, and capacity.
//
// What decides is pure: Machine is the state machine of one stream, Reporter the set of
// assignments whose status is to be reported, Results the set of answers, Summary the
// digests of all assignments. Client, stream and lease are thin I/O around them.
//
// Invariants:
//   - What is to be reported is a set and is rendered when it is sent: the newest wins,
//     and memory is O(assignments) however long the hub is away.
//   - A hub of a lower term than one that was seen is refused, in this process and in
//     later ones.
//   - A hub that does not acknowledge, answer or read for too long is disconnected.
//   - Nothing in the member depends on this package: while the hub is away all goes on.
package link
