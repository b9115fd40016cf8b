// Package link is the agent's end of the stream between the hub and the
// agents of its members (DESIGN section 5).
//
// Its place in the walk: it receives orders and hands them to
// agent/assignment, and sends what the member holds: the whole inventory when
// a stream opens, then the newest status of what changed, results of orders,
// and capacity.
//
// What decides is pure: Machine is the state machine of one stream, Reporter
// the set of assignments whose status is to be told, Results the set of
// answers. Client, stream and lease are thin I/O around them.
//
// Invariants:
//   - What is to be said is a set and is rendered when it is sent: the newest
//     wins, and memory is O(assignments) however long the hub is away.
//   - A hub of a lower term than has been seen is refused, in this process and
//     in those to come.
//   - Nothing of the member depends on this package: with the hub away all
//     goes on.
package link
