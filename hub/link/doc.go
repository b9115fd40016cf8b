// Package link is the hub's end of the stream between the hub and the agents
// of its members (docs/design.md, section 5).
//
// Its place in the walk: hub/member offers a member's cluster, whose writes
// become orders; this package sends them, and hands what the agent reports to
// that member's cache.
//
// What decides is pure: Conn is the state machine of one connection and
// Outbox the set of orders that it has still to send; messages and orders go
// in, messages and effects come out. Server, stream and peer are thin I/O
// around them.
//
// An inventory begins with its digest, and only the buckets that differ from
// what the hub remembers cross the wire; orders are acknowledged; and the digests
// on each renewal show whether both sides still agree, or the agent is asked for
// all (a resync).
//
// Invariants:
//   - Who speaks is decided by the one URI in the verified client certificate,
//     never by a message.
//   - Nobody without a client certificate makes the hub keep more than bounded
//     connections of bounded age, with 64 KiB each, or keeps an agent's connection
//     out: who may call is judged before a message is read, what is compressed is
//     refused, and of handshakes the oldest unfinished yields (accept.go).
//   - No order leaves before the agent's inventory is in, or known to be what
//     the hub remembers.
//   - An agent that does not acknowledge or read for too long loses its stream,
//     and never its lease for that.
//   - The memory of a connection is O(sessions of its member), however slowly
//     the agent reads: what is to be said is a set, not a queue.
//   - Connections share no lock, queue or goroutine, so that an agent that
//     stops reading delays nobody else, and no reconciler of the hub.
//   - One bad item never costs the others of its batch, nor the stream.
package link
