package link

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// handshakeRecorder begins handshakes and records which were ended for others.
type handshakeRecorder struct {
	*meters
	now   *time.Time
	ended []string
}

func (s *handshakeRecorder) begin(t *testing.T, name, address string, sendsHello bool) error {
	t.Helper()
	h, err := s.handshake(address, func() { s.ended = append(s.ended, name) })
	if err == nil && sendsHello {
		err = h.receivedHello()
	}
	*s.now = s.now.Add(time.Millisecond)
	return err
}

// TestTheOldestHandshakeThatWaitsForItsClientIsAborted fills an address's three places of
// five, and opens another.
func TestTheOldestHandshakeThatWaitsForItsClientIsAborted(t *testing.T) {
	const one, other, third = "192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1"
	for name, tc := range map[string]struct {
		hasHello [3]bool
		pass     time.Duration
		more     string
		ended    string
		refused  bool
	}{
		"all are silent":                  {[3]bool{}, 0, one, "[0]", false},
		"the oldest has sent a hello":     {[3]bool{true, false, false}, 0, one, "[1]", false},
		"all have sent a hello":           {[3]bool{true, true, true}, 0, one, "[]", true},
		"all have, and had time":          {[3]bool{true, true, true}, 4 * time.Second, one, "[0]", false},
		"another address has a place":     {[3]bool{true, true, true}, 0, other, "[]", false},
		"another address, all are silent": {[3]bool{}, 0, other, "[]", false},
		"an address of IPv6, all have":    {[3]bool{true, true, true}, 0, third, "[]", false},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := metered(func(l *Limits) { l.HandshakesPerAddress, l.Handshakes = 3, 5 })
			s := &handshakeRecorder{meters: m, now: now}
			for i, hello := range tc.hasHello {
				if err := s.begin(t, fmt.Sprint(i), one, hello); err != nil {
					t.Fatal(err)
				}
			}
			*now = now.Add(tc.pass)
			err := s.begin(t, "new", tc.more, false)
			if errors.Is(err, errLimited) != tc.refused {
				t.Errorf("the next: %v", err)
			}
			if got := fmt.Sprint(s.ended); got != tc.ended {
				t.Errorf("%s were ended, not %s", got, tc.ended)
			}
		})
	}
}

// TestAtTheLimitTheOldestHandshakeIsAborted has every place taken by addresses that
// are not beyond their own limit.
func TestAtTheLimitTheOldestHandshakeIsAborted(t *testing.T) {
	m, now := metered(func(l *Limits) { l.HandshakesPerAddress, l.Handshakes = 3, 5 })
	s := &handshakeRecorder{meters: m, now: now}
	for i := range 5 {
		if err := s.begin(t, fmt.Sprint(i), fmt.Sprintf("192.0.2.%d:1", i), i == 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.begin(t, "new", "192.0.2.9:1", false); err != nil || fmt.Sprint(s.ended) != "[1]" {
		t.Errorf("%v, and %v were ended", err, s.ended)
	}
	if len(m.handshakes) != 5 {
		t.Errorf("%d are counted", len(m.handshakes))
	}
}

// A silent connection costs its address none of its rate: honest agents behind it
// keep theirs.
func TestSilentConnectionsCostNoRate(t *testing.T) {
	m, now := metered(func(l *Limits) { l.HandshakesPerSecond = 1 })
	s := &handshakeRecorder{meters: m, now: now}
	for i := range 1000 {
		if err := s.begin(t, fmt.Sprint(i), "192.0.2.1:1", false); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.begin(t, "agent", "192.0.2.1:2", true); err != nil {
		t.Errorf("an agent of that address: %v", err)
	}
}

// TestAFloodOfAddressesSharesNoMeterWithAgents uses up the rate of more addresses
// of one /48 than are remembered.
func TestAFloodOfAddressesSharesNoMeterWithAgents(t *testing.T) {
	m, now := metered(func(l *Limits) { l.HandshakesPerSecond, l.UnauthenticatedPerAddress = 1, 2 })
	kept, err := m.connection(nil, "192.0.2.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer kept()
	s := &handshakeRecorder{meters: m, now: now}
	for i := range maxAddresses + 100 {
		address := fmt.Sprintf("[2001:db8:0:%x::1]:1", i)
		for range 11 {
			h, err := m.handshake(address, func() {})
			if err != nil {
				t.Fatal(err)
			}
			_ = h.receivedHello()
			h.end()
		}
	}
	for _, agent := range []string{"192.0.2.7:1", "[2001:db8:1::1]:1"} {
		if err := s.begin(t, "agent", agent, true); err != nil {
			t.Errorf("an agent at %s: %v", agent, err)
		}
	}
	if again := m.address(prefixOf("192.0.2.1:1")); again.unauthenticated != 1 {
		t.Errorf("%d connections of an address are counted, one is open", again.unauthenticated)
	}
}
