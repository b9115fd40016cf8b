package link

import (
	"slices"
	"time"
)

// handshake is a TLS handshake in progress. meters.mu protects it.
type handshake struct {
	meters  *meters
	address *addressMeter
	begun   time.Time
	// hasHello: its ClientHello was received.
	hasHello bool
	// abort closes its connection.
	abort func()
}

// handshake begins a handshake; if there are too many, it aborts the oldest that waits
// for its client. The caller calls end.
func (m *meters) handshake(address string, abort func()) (*handshake, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	meter := m.address(prefixOf(address))
	if meter.shaking >= m.limits.HandshakesPerAddress && !m.yield("HandshakesPerAddress", meter) {
		return nil, limited("HandshakesPerAddress")
	}
	if len(m.handshakes) >= m.limits.Handshakes && !m.yield("Handshakes", nil) {
		return nil, limited("Handshakes")
	}
	h := &handshake{meters: m, address: meter, begun: m.now(), abort: abort}
	meter.shaking++
	m.handshakes = append(m.handshakes, h)
	return h, nil
}

// yield aborts the oldest handshake, of an address or of any, that waits for its client:
// one without a ClientHello, or one that had time to finish. Others continue, so that a
// whole fleet that reconnects at once makes progress.
func (m *meters) yield(limit string, address *addressMeter) bool {
	overdue := m.now().Add(-m.patience)
	for _, h := range m.handshakes {
		if (address == nil || h.address == address) && (!h.hasHello || h.begun.Before(overdue)) {
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

// receivedHello limits the rate of the address: the next step of the handshake, the
// signature, is the expensive one.
func (h *handshake) receivedHello() error {
	h.meters.mu.Lock()
	defer h.meters.mu.Unlock()
	h.hasHello = true
	if !h.address.handshakes.AllowN(h.meters.now(), 1) {
		return limited("HandshakesPerSecond")
	}
	return nil
}

// end is called when the handshake has succeeded or failed.
func (h *handshake) end() {
	h.meters.mu.Lock()
	defer h.meters.mu.Unlock()
	h.meters.drop(h)
}
