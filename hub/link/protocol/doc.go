// Package protocol is the hub's end of the protocol that hub and agents speak on
// their stream (docs/design.md, section 5), as a pure state machine: messages and
// orders go in, messages and effects come out. hub/link is the I/O around it.
//
// Conn is the state machine of one connection, Outbox the set of orders that it has
// still to send. An inventory begins with its digest, and only the buckets that
// differ from what the hub remembers are sent; orders are acknowledged; and the
// digests on each renewal show whether both sides still agree, or the agent is
// asked for all that it holds (a resync).
//
// Invariants:
//   - No order is sent before the agent's inventory is applied, or known to be what
//     the hub remembers.
//   - The memory of a connection is O(sessions of its member), however slowly the
//     agent reads: the outbox is a set, not a queue.
//   - One malformed item never costs the others of its batch, nor the stream.
package protocol
