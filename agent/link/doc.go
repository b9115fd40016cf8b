// Package link is the agent's end of the stream between the hub and the
// agents of its members (docs/design.md, section 5).
//
// Its place in the walk: it receives orders and hands them to
// agent/assignment, and sends what the member holds: the inventory when a
// stream opens, then the newest status of what changed, results of orders,
// and capacity.
//
// What decides is pure: Machine is the state machine of one stream, Reporter
// the set of assignments whose status is to be told, Results the set of
// answers, Summary the digests of what the member holds. Client, stream and
// lease are thin I/O around them.
//
// A stream opens with the digest of the inventory, and then only what the hub
// lacks of it crosses the wire.
// Capacity is told in changes, to a hub that knows of them, and whole every 30 s.
// Both sides say on each renewal what they believe, in digests, and the hub
// asks for all once they have disagreed twice in a row.
//
// Invariants:
//   - What is to be said is a set and is rendered when it is sent: the newest
//     wins, and memory is O(assignments) however long the hub is away.
//   - A hub of a lower term than has been seen is refused, in this process and
//     in those to come.
//   - A hub that does not acknowledge, answer or read for too long is left.
//   - Nothing of the member depends on this package: with the hub away all
//     goes on.
package link
