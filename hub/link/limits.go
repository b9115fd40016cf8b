package link

import "time"

// Limits of agents and unauthenticated callers. A zero is the default. An honest fleet
// never reaches them, even behind one address; one agent or one address cannot use up
// the whole hub.
type Limits struct {
	// MessageBytes is the largest message of a stream, 4 MiB by default: batches
	// are of 1 MiB, and one item may be larger than a batch.
	MessageBytes int
	// CallBytes is the largest message of any other call, 64 KiB by default.
	CallBytes int
	// MessagesPerSecond and BytesPerSecond of one member's agent, 4,000 and
	// 16 MiB by default, with bursts of twice that (and 64 MiB). 1,000 status
	// changes a second are at most 1,000 messages of about 1 KiB. The messages of
	// an agent that sends more are read more slowly.
	MessagesPerSecond, BytesPerSecond int
	// RenewalsPerSecond of one member's agent; by default 5, or ten times the rate
	// of RenewInterval at the start if that is more.
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
	// bursts of ten times that: a whole fleet may reconnect from one address. A
	// connection counts once it has sent its ClientHello.
	HandshakesPerSecond int
	// Handshakes that may be in progress, 512 by default, and HandshakesPerAddress,
	// 256. Beyond them, the oldest that waits for its client is aborted.
	Handshakes, HandshakesPerAddress int
	// Unauthenticated are connections without an agent's certificate that may be
	// open, 256 by default, and UnauthenticatedPerAddress, 32.
	Unauthenticated, UnauthenticatedPerAddress int
	// EnrollmentsPerMinute of one address, 300 by default, and Enrollments that
	// may be in progress, 16.
	EnrollmentsPerMinute, Enrollments int
}

// Bounds of HTTP/2.
const (
	maxHeaderBytes = 16 << 10
	// maxCallsPerConnection permits a stream and overlapping calls.
	maxCallsPerConnection = 16
	// maxUnauthenticatedCalls is enough for an agent that enrolls: it makes one at a time.
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
