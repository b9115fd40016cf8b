// Package protocol is the hub's end of the stream between hub and agents
// (docs/design.md, section 5), as a pure state machine: messages and orders go in,
// messages and effects come out. hub/link is the I/O around it.
//
// Conn is the state machine of one connection, Outbox the set of its unsent orders. An
// inventory begins with its digest, and only the buckets that differ from the hub's
// copy are sent. Orders are acknowledged. Each renewal has digests; if they differ from
// the hub's, a resync requests the full inventory.
//
// Invariants:
//   - No order is sent before the agent's inventory is applied, or known to equal the
//     hub's copy.
//   - The memory of a connection is O(sessions of its member), however slowly the
//     agent reads: the outbox is a set, not a queue.
//   - One malformed item affects neither the others of its batch nor the stream.
package protocol
