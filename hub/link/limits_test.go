package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// metered has the default limits and a clock of its own.
func metered(change func(*Limits)) (*meters, *time.Time) {
	var limits Limits
	if change != nil {
		change(&limits)
	}
	limits.setDefaults(5 * time.Second)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return newMeters(limits, 3*time.Second, func() time.Time { return now }), &now
}

// TestAnAgentWithinItsLimitsIsNeverSlowedDown sends 1,000 changes a second, each in a
// message of its own, for five minutes, after an inventory of 40 MiB.
func TestAnAgentWithinItsLimitsIsNeverSlowedDown(t *testing.T) {
	m, now := metered(nil)
	meter, end, err := m.stream("m")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for range 40 {
		if wait := m.message(meter, 1<<20); wait > 0 {
			t.Fatalf("its inventory waits for %s", wait)
		}
	}
	for i := range 300 * 1000 {
		*now = now.Add(time.Millisecond)
		if wait := m.message(meter, 2<<10); wait > 0 {
			t.Fatalf("message %d waits for %s", i, wait)
		}
		if i%5000 == 0 {
			end, err := m.call("m", false)
			if err != nil {
				t.Fatal(err)
			}
			end()
		}
	}
}

func TestAnAgentThatSendsTooMuchIsReadMoreSlowly(t *testing.T) {
	m, _ := metered(nil)
	meter, _, err := m.stream("m")
	if err != nil {
		t.Fatal(err)
	}
	wait := func(bytes int) (longest time.Duration) {
		for range 20000 {
			longest = max(longest, m.message(meter, bytes))
		}
		return longest
	}
	if w := wait(1); w < time.Second {
		t.Errorf("20,000 messages at once: the last waits for %s", w)
	}
	if other, _, _ := m.stream("n"); m.message(other, 1) > 0 {
		t.Error("another member's agent waits for it")
	}
}

func TestWhatIsTooMuchAtOnceIsRefused(t *testing.T) {
	caller := &Caller{Member: "m"}
	const address = "192.0.2.1:1000"
	for name, tc := range map[string]struct {
		change func(*Limits)
		take   func(*meters) (func(), error)
		// other is the same of another caller.
		other func(*meters) (func(), error)
	}{
		"connections of a member": {
			func(l *Limits) { l.ConnectionsPerMember = 3 },
			func(m *meters) (func(), error) { return m.connection(caller, address) },
			func(m *meters) (func(), error) { return m.connection(&Caller{Member: "n"}, address) },
		},
		"streams of a member": {
			func(l *Limits) { l.StreamsPerMember = 3 },
			func(m *meters) (func(), error) { _, end, err := m.stream("m"); return end, err },
			func(m *meters) (func(), error) { _, end, err := m.stream("n"); return end, err },
		},
		"unauthenticated callers of an address": {
			func(l *Limits) { l.UnauthenticatedPerAddress = 3 },
			func(m *meters) (func(), error) { return m.connection(nil, address) },
			func(m *meters) (func(), error) { return m.connection(nil, "192.0.2.2:1000") },
		},
		"unauthenticated callers of an address of IPv6": {
			func(l *Limits) { l.UnauthenticatedPerAddress = 3 },
			func(m *meters) (func(), error) {
				return m.connection(nil, fmt.Sprintf("[2001:db8::%d]:1", len(m.addresses)+1))
			},
			func(m *meters) (func(), error) { return m.connection(nil, "[2001:db8:0:1::1]:1") },
		},
		"unauthenticated callers": {
			func(l *Limits) { l.Unauthenticated = 3 },
			func(m *meters) (func(), error) {
				return m.connection(nil, fmt.Sprintf("192.0.2.%d:1000", m.unauthenticated))
			},
			func(m *meters) (func(), error) { return m.connection(caller, address) },
		},
		"handshakes": {
			func(l *Limits) { l.Handshakes = 3 },
			func(m *meters) (func(), error) { return withHello(m, address) },
			nil,
		},
		"handshakes of an address": {
			func(l *Limits) { l.HandshakesPerAddress = 3 },
			func(m *meters) (func(), error) { return withHello(m, address) },
			func(m *meters) (func(), error) { return withHello(m, "192.0.2.2:1000") },
		},
		"enrollments": {
			func(l *Limits) { l.Enrollments = 3 },
			func(m *meters) (func(), error) { return m.enrollment() },
			nil,
		},
		"calls of a member": {
			func(l *Limits) { l.CallsPerMember = 3 },
			func(m *meters) (func(), error) { return m.call("m", false) },
			func(m *meters) (func(), error) { return m.call("n", false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := metered(tc.change)
			var ends []func()
			for range 3 {
				end, err := tc.take(m)
				if err != nil {
					t.Fatal(err)
				}
				ends = append(ends, end)
			}
			if _, err := tc.take(m); status.Code(statusOf(err)) != codes.ResourceExhausted {
				t.Errorf("the fourth: %v", err)
			}
			if tc.other != nil {
				if _, err := tc.other(m); err != nil {
					t.Errorf("another caller: %v", err)
				}
			}
			// What ends twice ends once.
			ends[0]()
			ends[0]()
			if _, err := tc.take(m); err != nil {
				t.Errorf("after one has ended: %v", err)
			}
			if _, err := tc.take(m); err == nil {
				t.Error("more than one took the place of one")
			}
		})
	}
}

// withHello is a handshake whose ClientHello is in.
func withHello(m *meters, address string) (func(), error) {
	h, err := m.handshake(address, func() {})
	if err == nil {
		err = h.receivedHello()
	}
	if err != nil {
		return nil, err
	}
	return h.end, nil
}

// ended ends at once what was begun.
func ended(end func(), err error) error {
	if err == nil {
		end()
	}
	return err
}

func TestRatesRecover(t *testing.T) {
	const address = "192.0.2.1:1000"
	for name, tc := range map[string]struct {
		change func(*Limits)
		most   int
		again  time.Duration
		take   func(*meters) error
	}{
		"renewals":  {nil, 20, time.Second, func(m *meters) error { return ended(m.call("m", false)) }},
		"rotations": {nil, 20, 3 * time.Second, func(m *meters) error { return ended(m.call("m", true)) }},
		"handshakes": {func(l *Limits) { l.HandshakesPerSecond = 5 }, 50, time.Second, func(m *meters) error {
			return ended(withHello(m, address))
		}},
		"enrollments": {func(l *Limits) { l.EnrollmentsPerMinute = 6 }, 6, 10 * time.Second, func(m *meters) error {
			return m.enroll(address)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := metered(tc.change)
			for i := range tc.most {
				if err := tc.take(m); err != nil {
					t.Fatalf("number %d: %v", i, err)
				}
			}
			if err := tc.take(m); !errors.Is(err, errLimited) {
				t.Errorf("one more: %v", err)
			}
			*now = now.Add(tc.again)
			if err := tc.take(m); err != nil {
				t.Errorf("later: %v", err)
			}
		})
	}
}

func TestRenewalsMayBeAsFrequentAsTheHubRequests(t *testing.T) {
	var l Limits
	l.setDefaults(50 * time.Millisecond)
	if l.RenewalsPerSecond < 100 {
		t.Errorf("%d a second, while 20 are requested", l.RenewalsPerSecond)
	}
}

// TestWhatIsRememberedIsBounded has a new address, and a new member, each time.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	m, now := metered(nil)
	for i := range 3 * maxAddresses {
		_ = ended(withHello(m, fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)))
		_ = ended(m.call(types.UID(fmt.Sprint(i)), false))
	}
	if len(m.addresses) > maxAddresses || m.byUse.Len() != len(m.addresses) {
		t.Errorf("%d addresses are remembered", len(m.addresses))
	}
	kept, err := m.connection(&Caller{Member: "kept"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer kept()
	*now = now.Add(idleMeters + time.Second)
	_ = ended(m.call("new", false))
	if len(m.addresses) != 0 || m.byUse.Len() != 0 || len(m.members) != 2 {
		t.Errorf("%d addresses and %d members are remembered while all were idle", len(m.addresses), len(m.members))
	}
}

type fakeConn struct {
	net.Conn
	closed bool
}

func (f *fakeConn) Close() error { f.closed = true; return nil }

func TestAConnectionReleasesItsResources(t *testing.T) {
	m := newMeters(Limits{Unauthenticated: 1, UnauthenticatedPerAddress: 1}, 0, time.Now)
	end, err := m.connection(nil, "192.0.2.1:1")
	if err != nil {
		t.Fatal(err)
	}
	conn := &meteredConn{Conn: &fakeConn{}, end: end}
	_ = conn.Close()
	_ = conn.Close()
	if m.unauthenticated != 0 {
		t.Errorf("%d connections are counted after it was closed twice", m.unauthenticated)
	}
	if err := (&meteredConn{Conn: &fakeConn{}}).Close(); err != nil {
		t.Errorf("one that failed its handshake: %v", err)
	}
}

func TestAPanicCostsOneCall(t *testing.T) {
	s := NewServer(Options{}, nil)
	ctx := grpc.NewContextWithServerTransportStream(t.Context(), uncompressedStream{})
	panicking := func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) { panic("secret") }
	_, err := s.authorizer.unary(fleetv1.FleetService_Enroll_FullMethodName, panicking)(s, ctx, nil, nil)
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("unary: %v", err)
	}
	err = s.authorizer.streaming(nil, panickingStream{}, &grpc.StreamServerInfo{FullMethod: fleetv1.FleetService_Connect_FullMethodName}, nil)
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("stream: %v", err)
	}
	if got := counted(t, metricPanics.WithLabelValues("Enroll")) + counted(t, metricPanics.WithLabelValues("Connect")); got < 2 {
		t.Errorf("%v panics were counted", got)
	}
}

type uncompressedStream struct{ grpc.ServerTransportStream }

func (uncompressedStream) RecvCompress() string { return "" }

type panickingStream struct{ grpc.ServerStream }

func (panickingStream) Context() context.Context { panic("secret") }

func counted(t *testing.T, metric prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := metric.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}
