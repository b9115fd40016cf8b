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

// What is remembered of members and addresses: it is dropped once it is idle
// for idleMeters, which is longer than any of the rates takes to recover.
const (
	idleMeters = 2 * time.Minute
	// maxAddresses are remembered. Beyond them, the one that is idle longest is
	// forgotten: a flood from new addresses costs others their debts, and never
	// makes them share one meter with it.
	maxAddresses = 8192
)

// meters count what members and addresses have and do.
type meters struct {
	limits Limits
	now    func() time.Time
	// patience is how long a handshake whose ClientHello is in yields to no other.
	patience time.Duration

	mu        sync.Mutex
	members   map[types.UID]*memberMeter
	addresses map[netip.Prefix]*addressMeter
	// byUse are the addresses, the one that was used last first.
	byUse list.List
	// handshakes in progress, the oldest first.
	handshakes      []*handshake
	unauthenticated int
	enrollments     int
	swept           time.Time
}

// memberMeter is what one member's agent has and does; meters.mu guards the
// plain fields.
type memberMeter struct {
	messages, bytes, renewals, rotations *rate.Limiter

	connections, streams, calls int
	used                        time.Time
}

// addressMeter is the same of one address.
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

// member returns the meter of a member. Only those for which a trusted
// authority has issued a certificate come so far.
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
			m.forgetIdlest()
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

// idle says that the meter counts nothing that is in progress.
func (a *addressMeter) idle() bool { return a.shaking == 0 && a.unauthenticated == 0 }

func (m *meters) forget(meter *addressMeter) {
	m.byUse.Remove(meter.place)
	delete(m.addresses, meter.from)
}

// forgetIdlest makes room for one address. Those in use are fewer than maxAddresses.
func (m *meters) forgetIdlest() {
	for e := m.byUse.Back(); e != nil; e = e.Prev() {
		if meter := e.Value.(*addressMeter); meter.idle() {
			m.forget(meter)
			return
		}
	}
}

// sweep drops what has been idle, at most once in idleMeters.
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

// prefixOf is what counts as one address: who has one of IPv6 has 2^64. All that are no
// IP address have the same, which is not valid.
func prefixOf(address string) netip.Prefix {
	from, _ := netip.ParseAddrPort(address)
	ip, bits := from.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// limited counts a refusal, and says which limit it was.
func limited(limit string) error {
	metricLimited.WithLabelValues(limit).Inc()
	return fmt.Errorf("%w (%s)", errLimited, limit)
}

// take counts one more of something that there may be so many of at once.
func take(limit string, count *int, most int) error {
	if *count >= most {
		return limited(limit)
	}
	*count++
	return nil
}

// give ends what take began. Whatever is given twice is given once.
func (m *meters) give(counts ...*int) func() {
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, count := range counts {
			*count--
		}
	})
}

// connection counts one that has shaken hands, until it is closed.
func (m *meters) connection(caller *Caller, address string) (end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if caller != nil {
		meter := m.member(caller.Member)
		if err := take("ConnectionsPerMember", &meter.connections, m.limits.ConnectionsPerMember); err != nil {
			return nil, err
		}
		return m.give(&meter.connections), nil
	}
	meter := m.address(prefixOf(address))
	if err := take("UnauthenticatedPerAddress", &meter.unauthenticated, m.limits.UnauthenticatedPerAddress); err != nil {
		return nil, err
	}
	if err := take("Unauthenticated", &m.unauthenticated, m.limits.Unauthenticated); err != nil {
		meter.unauthenticated--
		return nil, err
	}
	return m.give(&meter.unauthenticated, &m.unauthenticated), nil
}

// stream counts one of a member.
func (m *meters) stream(member types.UID) (meter *memberMeter, end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meter = m.member(member)
	if err := take("StreamsPerMember", &meter.streams, m.limits.StreamsPerMember); err != nil {
		return nil, nil, err
	}
	return meter, m.give(&meter.streams), nil
}

// enroll counts the attempt of an address, before its message is read.
func (m *meters) enroll(address string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.address(prefixOf(address)).enrollments.AllowN(m.now(), 1) {
		return limited("EnrollmentsPerMinute")
	}
	return nil
}

// enrollment begins one whose message is in: one that never comes holds nothing.
func (m *meters) enrollment() (end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := take("Enrollments", &m.enrollments, m.limits.Enrollments); err != nil {
		return nil, err
	}
	return m.give(&m.enrollments), nil
}

// call begins one of a member that is no stream.
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
	if err := take("CallsPerMember", &meter.calls, m.limits.CallsPerMember); err != nil {
		return nil, err
	}
	return m.give(&meter.calls), nil
}

// message is how long to wait after one of so many bytes before the next is
// read.
func (m *meters) message(meter *memberMeter, bytes int) time.Duration {
	now := m.now()
	wait := meter.messages.ReserveN(now, 1).DelayFrom(now)
	return max(wait, meter.bytes.ReserveN(now, min(bytes, meter.bytes.Burst())).DelayFrom(now))
}
