package link

import (
	"slices"
	"time"
)

// handshake is one of TLS in progress; meters.mu guards it.
type handshake struct {
	meters  *meters
	address *addressMeter
	begun   time.Time
	// greeted says that its ClientHello is in.
	greeted bool
	// abort closes its connection.
	abort func()
}

// handshake begins one, in place of the oldest that waits for its client where
// there are too many; abort ends it early. The caller calls end.
func (m *meters) handshake(address string, abort func()) (*handshake, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meter := m.address(prefixOf(address))
	ofAddress := func(h *handshake) bool { return h.address == meter }
	ofAny := func(*handshake) bool { return true }
	if meter.shaking >= m.limits.HandshakesPerAddress && !m.yield("HandshakesPerAddress", ofAddress) {
		return nil, limited("HandshakesPerAddress")
	}
	if len(m.handshakes) >= m.limits.Handshakes && !m.yield("Handshakes", ofAny) {
		return nil, limited("Handshakes")
	}
	h := &handshake{meters: m, address: meter, begun: m.now(), abort: abort}
	meter.shaking++
	m.handshakes = append(m.handshakes, h)
	return h, nil
}

// yield ends the oldest of some handshakes that waits for its client: one without
// a ClientHello, or one that has had time to finish. Others go on, so that a fleet
// that comes back at once makes progress.
func (m *meters) yield(limit string, among func(*handshake) bool) bool {
	overdue := m.now().Add(-m.patience)
	for _, h := range m.handshakes {
		if among(h) && (!h.greeted || h.begun.Before(overdue)) {
			metricLimited.WithLabelValues(limit).Inc()
			m.drop(h)
			h.abort()
			return true
		}
	}
	return false
}

func (m *meters) drop(h *handshake) {
	if i := slices.Index(m.handshakes, h); i >= 0 {
		m.handshakes = slices.Delete(m.handshakes, i, i+1)
		h.address.shaking--
	}
}

// abortHandshakes ends all that are in progress.
func (m *meters) abortHandshakes() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.handshakes {
		h.abort()
	}
}

// greet notes that the ClientHello is in. What comes next costs the hub its
// private key, so here is where the rate of the address is limited.
func (h *handshake) greet() error {
	h.meters.mu.Lock()
	defer h.meters.mu.Unlock()
	h.greeted = true
	if !h.address.handshakes.AllowN(h.meters.now(), 1) {
		return limited("HandshakesPerSecond")
	}
	return nil
}

// end is called once the handshake is over, whether it succeeded or not.
func (h *handshake) end() {
	h.meters.mu.Lock()
	defer h.meters.mu.Unlock()
	h.meters.drop(h)
}
