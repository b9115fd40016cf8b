// Package link is the hub's end of the stream between the hub and the agents
// of its members (docs/design.md, section 5): the gRPC server, with what callers
// may do and how much of it. The protocol itself is in hub/link/protocol.
//
// hub/member offers a member's cluster, whose writes become orders; this package
// sends them, and hands what the agent reports to that member's cache.
//
// Invariants:
//   - Who calls is decided by the one URI in the verified client certificate,
//     never by a message.
//   - Callers without a client certificate cannot make the hub keep more than
//     bounded connections of bounded age, with 64 KiB each, or keep an agent's
//     connection out: a call is authorized before a message is read, compressed
//     messages are refused, and the oldest unfinished handshake is ended for a new
//     one (accept.go).
//   - An agent that does not acknowledge or read for too long loses its stream,
//     and never its lease for that.
//   - Connections share no lock, queue or goroutine, so that an agent that
//     stops reading delays no other, and no reconciler of the hub.
package link
