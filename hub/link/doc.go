// Package link is the hub's end of the stream between the hub and the agents
// of its members (docs/design.md, section 5): the gRPC server, its authorization and
// its limits. The protocol itself is in hub/link/protocol.
//
// hub/member provides a member's cluster, whose writes become orders; this package
// sends them, and passes the agent's reports to that member's cache.
//
// Invariants:
//   - A caller is identified by the one URI in its verified client certificate,
//     never by a message.
//   - Callers without a client certificate have at most a bounded number of
//     connections of bounded age, with 64 KiB each, and cannot keep an agent from
//     connecting: a call is authorized before a message is read, compressed messages
//     are refused, and the oldest unfinished handshake is ended for a new one
//     (handshakes.go).
//   - An agent that does not acknowledge or read for too long loses its stream,
//     and never its lease for that.
//   - Connections share no lock, queue or goroutine, so that an agent that
//     stops reading delays no other, and no reconciler of the hub.
package link
