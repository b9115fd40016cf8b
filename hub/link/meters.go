package link

import (
	"container/list"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// idleMeters is how long an idle meter is kept, longer than any of the rates
	// takes to recover.
	idleMeters = 2 * time.Minute
	// maxAddresses is how many meters of addresses are kept; the one that was idle
	// longest is evicted for a new one.
	maxAddresses = 8192
)

// meters limit what members and addresses use.
type meters struct {
	limits Limits
	now    func() time.Time
	// patience is how long a handshake with a ClientHello is not aborted for others.
	patience time.Duration

	mu        sync.Mutex
	members   map[types.UID]*memberMeter
	addresses map[netip.Prefix]*addressMeter
	// byUse has the addresses, the most recently used first.
	byUse list.List
	// handshakes in progress, the oldest first.
	handshakes      []*handshake
	unauthenticated int
	enrollments     int
	swept           time.Time
}

// memberMeter limits one member's agent. meters.mu protects the plain fields.
type memberMeter struct {
	messages, bytes, renewals, rotations *rate.Limiter

	connections, streams, calls int
	used                        time.Time
}

// addressMeter limits one address.
type addressMeter struct {
	handshakes, enrollments *rate.Limiter

	from                     netip.Prefix
	shaking, unauthenticated int
	used                     time.Time
	place                    *list.Element
}

func newMeters(limits Limits, patience time.Duration, now func() time.Time) *meters {
	return &meters{
		limits: limits, patience: patience, now: now, swept: now(),
		members: map[types.UID]*memberMeter{}, addresses: map[netip.Prefix]*addressMeter{},
	}
}

func perSecond(n, burst int) *rate.Limiter { return rate.NewLimiter(rate.Limit(n), burst) }

func perMinute(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(float64(n)/60), n) }

// member returns the meter of a member, which has a verified certificate.
func (m *meters) member(uid types.UID) *memberMeter {
	now := m.now()
	m.sweep(now)
	meter := m.members[uid]
	if meter == nil {
		l := m.limits
		meter = &memberMeter{
			messages: perSecond(l.MessagesPerSecond, 2*l.MessagesPerSecond),
			bytes:    perSecond(l.BytesPerSecond, max(messageBurstBytes, l.MessageBytes)),
			renewals: perSecond(l.RenewalsPerSecond, 4*l.RenewalsPerSecond), rotations: perMinute(l.RotationsPerMinute),
		}
		m.members[uid] = meter
	}
	meter.used = now
	return meter
}

func (m *meters) address(from netip.Prefix) *addressMeter {
	now := m.now()
	m.sweep(now)
	meter := m.addresses[from]
	if meter == nil {
		if len(m.addresses) >= maxAddresses {
			m.evictIdle()
		}
		l := m.limits
		meter = &addressMeter{
			from:        from,
			handshakes:  perSecond(l.HandshakesPerSecond, 10*l.HandshakesPerSecond),
			enrollments: perMinute(l.EnrollmentsPerMinute),
		}
		meter.place = m.byUse.PushFront(meter)
		m.addresses[from] = meter
	}
	meter.used = now
	m.byUse.MoveToFront(meter.place)
	return meter
}

// idle reports whether nothing of the address is in progress.
func (a *addressMeter) idle() bool { return a.shaking == 0 && a.unauthenticated == 0 }

func (m *meters) forget(meter *addressMeter) {
	m.byUse.Remove(meter.place)
	delete(m.addresses, meter.from)
}

// evictIdle drops the address that was idle longest. Those in use are fewer than
// maxAddresses.
func (m *meters) evictIdle() {
	for e := m.byUse.Back(); e != nil; e = e.Prev() {
		if meter := e.Value.(*addressMeter); meter.idle() {
			m.forget(meter)
			return
		}
	}
}

// sweep drops idle meters, at most once in idleMeters.
func (m *meters) sweep(now time.Time) {
	if now.Sub(m.swept) < idleMeters {
		return
	}
	m.swept = now
	for uid, meter := range m.members {
		if meter.connections == 0 && meter.streams == 0 && meter.calls == 0 && now.Sub(meter.used) >= idleMeters {
			delete(m.members, uid)
		}
	}
	for _, meter := range m.addresses {
		if meter.idle() && now.Sub(meter.used) >= idleMeters {
			m.forget(meter)
		}
	}
}

// prefixOf returns what counts as one address: a /64 of IPv6. All that are no IP address
// have the same invalid prefix.
func prefixOf(address string) netip.Prefix {
	from, _ := netip.ParseAddrPort(address)
	ip, bits := from.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// limited counts a refusal, and returns the error for a limit.
func limited(limit string) error {
	metricLimited.WithLabelValues(limit).Inc()
	return fmt.Errorf("%w (%s)", errLimited, limit)
}

// acquire increments a count that has a maximum.
func acquire(limit string, count *int, maximum int) error {
	if *count >= maximum {
		return limited(limit)
	}
	*count++
	return nil
}

// release returns the function that decrements counts, once.
func (m *meters) release(counts ...*int) func() {
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, count := range counts {
			*count--
		}
	})
}

// connection counts a connection whose handshake is done, until it is closed.
func (m *meters) connection(caller *Caller, address string) (end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if caller != nil {
		meter := m.member(caller.Member)
		if err := acquire("ConnectionsPerMember", &meter.connections, m.limits.ConnectionsPerMember); err != nil {
			return nil, err
		}
		return m.release(&meter.connections), nil
	}
	meter := m.address(prefixOf(address))
	if err := acquire("UnauthenticatedPerAddress", &meter.unauthenticated, m.limits.UnauthenticatedPerAddress); err != nil {
		return nil, err
	}
	if err := acquire("Unauthenticated", &m.unauthenticated, m.limits.Unauthenticated); err != nil {
		meter.unauthenticated--
		return nil, err
	}
	return m.release(&meter.unauthenticated, &m.unauthenticated), nil
}

// stream counts a stream of a member, until its end.
func (m *meters) stream(member types.UID) (meter *memberMeter, end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meter = m.member(member)
	if err := acquire("StreamsPerMember", &meter.streams, m.limits.StreamsPerMember); err != nil {
		return nil, nil, err
	}
	return meter, m.release(&meter.streams), nil
}

// enroll counts an attempt of an address, before its message is read.
func (m *meters) enroll(address string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.address(prefixOf(address)).enrollments.AllowN(m.now(), 1) {
		return limited("EnrollmentsPerMinute")
	}
	return nil
}

// enrollment counts an enrollment whose message was received, until its end.
func (m *meters) enrollment() (end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := acquire("Enrollments", &m.enrollments, m.limits.Enrollments); err != nil {
		return nil, err
	}
	return m.release(&m.enrollments), nil
}

// call counts a unary call of a member, until its end.
func (m *meters) call(member types.UID, rotation bool) (end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meter := m.member(member)
	switch {
	case rotation && !meter.rotations.AllowN(m.now(), 1):
		return nil, limited("RotationsPerMinute")
	case !rotation && !meter.renewals.AllowN(m.now(), 1):
		return nil, limited("RenewalsPerSecond")
	}
	if err := acquire("CallsPerMember", &meter.calls, m.limits.CallsPerMember); err != nil {
		return nil, err
	}
	return m.release(&meter.calls), nil
}

// message returns how long to wait after a message before the next is read.
func (m *meters) message(meter *memberMeter, bytes int) time.Duration {
	now := m.now()
	wait := meter.messages.ReserveN(now, 1).DelayFrom(now)
	return max(wait, meter.bytes.ReserveN(now, min(bytes, meter.bytes.Burst())).DelayFrom(now))
}
