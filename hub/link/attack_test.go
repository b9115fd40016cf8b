package link_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// from dials with a source address of loopback.
func from(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 5 * time.Second}
}

// attackPace is how many connections attackers open again a second: what is shown
// is what they may hold, not what a machine can dial.
const attackPace = 50

// hold keeps so many connections open that send these bytes and nothing more, and opens
// another for each that the hub closes, until the test ends. It returns once all
// have been opened, and the hub has closed one: they hold all they may.
func (w *world) hold(t *testing.T, n int, dialer func(i int) *net.Dialer, sent []byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	opened, done, closed := make(chan struct{}, n), make(chan struct{}, n), make(chan struct{})
	closedOne := sync.OnceFunc(func() { close(closed) })
	pace := rate.NewLimiter(attackPace, n)
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			for first := true; pace.Wait(ctx) == nil; first = false {
				conn, err := dialer(i).DialContext(ctx, "tcp", w.address)
				if first {
					opened <- struct{}{}
				}
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = conn.Write(sent)
				_, _ = io.Copy(io.Discard, conn)
				closedOne()
				stop()
				_ = conn.Close()
			}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range n {
			<-done
		}
	})
	for range n {
		<-opened
	}
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("the hub keeps all of them")
	}
}

// clientHello returns the first message of a TLS handshake. Attackers send the same one
// again: what is shown is what the hub keeps for them, not what their own handshakes cost.
func (w *world) clientHello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	config := w.tls(nil)
	go func() { _ = tls.Client(client, config).Handshake() }()
	defer func() { _ = client.Close() }()
	record := make([]byte, 16<<10)
	n, err := server.Read(record)
	if err != nil {
		t.Fatal(err)
	}
	return record[:n]
}

// Connections that never finish a handshake leave capacity for an agent, wherever they come
// from: for one address there is a bound, and the oldest is aborted.
func TestUnfinishedHandshakesKeepNoAgentOut(t *testing.T) {
	each := func(i int) *net.Dialer { return from("127.0.3." + string(rune('1'+i%8))) }
	for name, attack := range map[string]struct {
		from    func(int) *net.Dialer
		stalled bool
	}{
		"silent, of one address":         {func(int) *net.Dialer { return from("127.0.0.66") }, false},
		"silent, of the agent's address": {func(int) *net.Dialer { return from("127.0.0.1") }, false},
		"silent, of eight addresses":     {each, false},
		"stalled, of one address":        {func(int) *net.Dialer { return from("127.0.0.67") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			// Bounds lower than the defaults show the same with fewer handshakes, and
			// none is aborted for being old.
			w := serve(t, func(o *link.Options) {
				o.Timeouts.Hello, o.Timeouts.ClientHello = time.Minute, time.Minute
				o.Limits.Handshakes, o.Limits.HandshakesPerAddress = 64, 32
			})
			var sent []byte
			if attack.stalled {
				sent = w.clientHello(t)
			}
			w.hold(t, 80, attack.from, sent)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := connect(ctx, w.client(w.agent("own")), grpc.WaitForReady(true)); err != nil {
				t.Errorf("an agent can't connect: %v", err)
			}
		})
	}
}

// A connection that does not send a ClientHello is closed long before one that
// handshakes slowly would be.
func TestASilentConnectionIsClosedSoon(t *testing.T) {
	w := serve(t, func(o *link.Options) { o.Timeouts.Hello, o.Timeouts.ClientHello = time.Hour, 50*time.Millisecond })
	for name, conn := range map[string]func() (net.Conn, error){
		"silent": func() (net.Conn, error) { return net.Dial("tcp", w.address) },
		"without a preface, and without a certificate": func() (net.Conn, error) { return tls.Dial("tcp", w.address, w.tls(nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := conn()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			for {
				// Before the end may come the server's settings.
				if _, err := c.Read(make([]byte, 1024)); err != nil {
					var timeout net.Error
					if errors.As(err, &timeout) && timeout.Timeout() {
						t.Error("it is still open")
					}
					return
				}
			}
		})
	}
}

func (w *world) raw(t *testing.T, cert *tls.Certificate) *harness.RawGRPC {
	t.Helper()
	c, err := harness.DialRawGRPC(t.Context(), from("127.0.0.1"), w.address, w.tls(cert))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// largest is a message of a stream at its largest; of all others 64 KiB are.
const largest, window = 4<<20 - 1, 64 << 10

// A caller without a certificate can't have the hub keep 4 MiB for a call, nor many calls.
func TestACallerWithoutACertificateIsKeptNoMoreThanAWindow(t *testing.T) {
	w := serve(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn := w.raw(t, nil)
	if calls, err := conn.MaxStreams(ctx); err != nil || calls > 2 {
		t.Errorf("%d calls at once (%v)", calls, err)
	}
	for _, method := range []string{fleetv1.FleetService_Enroll_FullMethodName, fleetv1.FleetService_RenewLease_FullMethodName, fleetv1.FleetService_Connect_FullMethodName} {
		call, err := conn.Call(method)
		if err != nil {
			t.Fatal(err)
		}
		if err := call.Claim(largest, false); err != nil {
			t.Fatal(err)
		}
		sent, err := call.Send(ctx, make([]byte, largest-1), false)
		if err != nil || sent > window {
			t.Errorf("%s: the hub took %d bytes of a message that is never whole (%v)", method, sent, err)
		}
	}
}

// A call is authorized by method and certificate, before there is a message.
func TestACallIsRefusedBeforeItsMessageIsRead(t *testing.T) {
	w := serve(t, func(o *link.Options) { o.Limits.EnrollmentsPerMinute = 1 })
	if _, err := w.client(nil).Enroll(t.Context(), &fleetv1.EnrollRequest{Token: "good", CertificateRequest: []byte("r")}); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]struct {
		cert   *tls.Certificate
		method string
	}{
		"a renewal without a certificate":  {nil, fleetv1.FleetService_RenewLease_FullMethodName},
		"a rotation without a certificate": {nil, fleetv1.FleetService_RotateCertificate_FullMethodName},
		"a stream without a certificate":   {nil, fleetv1.FleetService_Connect_FullMethodName},
		"an enrollment too many":           {nil, fleetv1.FleetService_Enroll_FullMethodName},
		"a renewal of a removed member":    {w.agent("unknown"), fleetv1.FleetService_RenewLease_FullMethodName},
		"a method that is not there":       {w.agent("own"), "/vdi.fleet.v1.FleetService/Nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			g := patient(t)
			call, err := w.raw(t, call.cert).Call(call.method)
			g.Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			g.Expect(call.Ended(ctx)).To(Succeed(), "the hub waits for its message")
			g.Expect(call.Status).NotTo(Or(BeEmpty(), Equal("0")))
		})
	}
}

// A call whose message never comes to its end ends by the hub's time.
func TestAnUnfinishedCallEndsByItself(t *testing.T) {
	w := serve(t, func(o *link.Options) { o.Timeouts.Call = 100 * time.Millisecond })
	for name, call := range map[string]struct {
		cert   *tls.Certificate
		method string
	}{
		"an enrollment":      {nil, fleetv1.FleetService_Enroll_FullMethodName},
		"a member's renewal": {w.agent("own"), fleetv1.FleetService_RenewLease_FullMethodName},
	} {
		t.Run(name, func(t *testing.T) {
			g := patient(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			call, err := w.raw(t, call.cert).Call(call.method)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(call.Claim(100, false)).To(Succeed())
			_, err = call.Send(ctx, make([]byte, 99), false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(call.Ended(ctx)).To(Succeed(), "the hub waits forever")
			g.Expect(call.Status).To(Equal("4"), "DeadlineExceeded")
		})
	}
}

// The calls of one member that have not come to their end are few, beside which
// another member's go on.
func TestAMembersUnfinishedCallsAreFew(t *testing.T) {
	g := patient(t)
	w := serve(t, func(o *link.Options) { o.Timeouts.Call, o.Limits.RenewalsPerSecond = time.Hour, 1000 })
	w.do(func() { w.standing["other"] = link.Access{} })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn := w.raw(t, w.agent("own"))
	for range 10 {
		call, err := conn.Call(fleetv1.FleetService_RenewLease_FullMethodName)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(call.Claim(largest, false)).To(Succeed())
	}
	g.Eventually(func() codes.Code {
		_, err := w.client(w.agent("own")).RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i"})
		return status.Code(err)
	}).Should(Equal(codes.ResourceExhausted))
	_, err := w.client(w.agent("other")).RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i"})
	g.Expect(err).NotTo(HaveOccurred())
	conn.Close()
	g.Eventually(func() error {
		_, err := w.client(w.agent("own")).RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i"})
		return err
	}).Should(Succeed(), "what they held is released")
}

// What is compressed is refused before the hub decompresses it.
func TestNothingIsDecompressed(t *testing.T) {
	w := serve(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	squeezed := grpc.UseCompressor(gzip.Name)
	if _, err := w.client(nil).Enroll(ctx, &fleetv1.EnrollRequest{Token: "good", CertificateRequest: []byte("r")}, squeezed); status.Code(err) != codes.Unimplemented {
		t.Errorf("an enrollment: %v", err)
	}
	client := w.client(w.agent("own"))
	if _, err := client.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i"}, squeezed); status.Code(err) != codes.Unimplemented {
		t.Errorf("a renewal: %v", err)
	}
	if _, err := connect(ctx, client, squeezed); status.Code(err) != codes.Unimplemented {
		t.Errorf("a stream: %v", err)
	}
}
