package link

import "time"

// Limits of what agents and unauthenticated callers may ask of the hub. A zero is the
// default. They are so wide that an honest fleet never meets them, behind one
// address too, and so narrow that one agent or one address can't take the
// whole hub.
type Limits struct {
	// MessageBytes is the largest message of a stream, 4 MiB by default: batches
	// are of 1 MiB, and one item may be larger than a batch.
	MessageBytes int
	// CallBytes is the largest message of any other call, 64 KiB by default.
	CallBytes int
	// MessagesPerSecond and BytesPerSecond of one member's agent, 4,000 and
	// 16 MiB by default, with the double (and 64 MiB) at once. 1,000 status
	// changes a second are at most 1,000 messages of some 1 KiB. An agent that
	// says more is read more slowly, and never cut off for it.
	MessagesPerSecond, BytesPerSecond int
	// RenewalsPerSecond of one member's agent; by default 5, or ten times as
	// many as it is asked for if that is more.
	RenewalsPerSecond int
	// RotationsPerMinute of one member's agent, 20 by default.
	RotationsPerMinute int
	// CallsPerMember is how many calls other than Connect one member's agent may
	// have in progress, 4 by default: each may hold a message of MessageBytes
	// until CallBytes is checked.
	CallsPerMember int
	// ConnectionsPerMember that may be open, half-open ones included, 64 by
	// default; StreamsPerMember, 8 by default.
	ConnectionsPerMember, StreamsPerMember int
	// HandshakesPerSecond of one address (one /64 of IPv6), 100 by default, with
	// ten times that at once: a whole fleet may come back from behind one. A
	// connection counts once it has sent its ClientHello.
	HandshakesPerSecond int
	// Handshakes that may be in progress, 512 by default, and HandshakesPerAddress,
	// 256. Beyond them, the oldest that waits for its client is ended for the new
	// one, so that connections which never finish keep no agent out.
	Handshakes, HandshakesPerAddress int
	// Unauthenticated are connections without an agent's certificate that may be
	// open, 256 by default, and UnauthenticatedPerAddress, 32.
	Unauthenticated, UnauthenticatedPerAddress int
	// EnrollmentsPerMinute of one address, 300 by default, and Enrollments that
	// may be in progress, 16.
	EnrollmentsPerMinute, Enrollments int
}

// HTTP/2's bounds, which nobody needs to change.
const (
	maxHeaderBytes = 16 << 10
	// maxCallsPerConnection: a stream, and calls that overlap.
	maxCallsPerConnection = 16
	// maxUnauthenticatedCalls: an agent that enrolls makes one at a time.
	maxUnauthenticatedCalls = 2
	// messageBurstBytes is at least as large as the largest message.
	messageBurstBytes = 64 << 20
)

func (l *Limits) setDefaults(renewInterval time.Duration) {
	setDefaults([]setting[int]{
		{&l.MessageBytes, 4 << 20}, {&l.CallBytes, 64 << 10},
		{&l.MessagesPerSecond, 4000}, {&l.BytesPerSecond, 16 << 20},
		{&l.RenewalsPerSecond, max(5, int(10/renewInterval.Seconds()))}, {&l.RotationsPerMinute, 20},
		{&l.CallsPerMember, 4}, {&l.ConnectionsPerMember, 64}, {&l.StreamsPerMember, 8},
		{&l.HandshakesPerSecond, 100}, {&l.Handshakes, 512}, {&l.HandshakesPerAddress, 256},
		{&l.Unauthenticated, 256}, {&l.UnauthenticatedPerAddress, 32},
		{&l.EnrollmentsPerMinute, 300}, {&l.Enrollments, 16},
	})
}
