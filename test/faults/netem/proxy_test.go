package netem

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// proxied opens a connection through a proxy to an echo server.
func proxied(t *testing.T) (*Proxy, net.Conn) {
	t.Helper()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	p, err := NewProxy(func() string { return echo.Addr().String() }, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, dial(t, p)
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// echoed reports whether what it sends comes back within a time.
func echoed(t *testing.T, conn net.Conn, within time.Duration) bool {
	t.Helper()
	if _, err := conn.Write([]byte("hello")); err != nil {
		return false
	}
	_ = conn.SetReadDeadline(time.Now().Add(within))
	got := make([]byte, 5)
	_, err := io.ReadFull(conn, got)
	return err == nil && bytes.Equal(got, []byte("hello"))
}

const arrives, silence = 10 * time.Second, 200 * time.Millisecond

func TestProxyCutsEitherDirection(t *testing.T) {
	for name, cut := range map[string]Conditions{"to hub": {CutToHub: true}, "to agent": {CutToAgent: true}} {
		t.Run(name, func(t *testing.T) {
			p, conn := proxied(t)
			if !echoed(t, conn, arrives) {
				t.Fatal("nothing came back over a working network")
			}
			p.Set(cut)
			if echoed(t, conn, silence) {
				t.Error("something came through a cut")
			}
			p.Set(Conditions{})
			_ = conn.SetReadDeadline(time.Now().Add(arrives))
			if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
				t.Errorf("what was held back was not delivered: %v", err)
			}
		})
	}
}

func TestDroppedConnectionIsSilentAndNotReset(t *testing.T) {
	p, conn := proxied(t)
	if !echoed(t, conn, arrives) {
		t.Fatal("nothing came back over a working network")
	}
	if n := p.DropSilently(); n != 1 {
		t.Fatalf("%d connections dropped, want 1", n)
	}
	_, _ = conn.Write([]byte("hello"))
	_ = conn.SetReadDeadline(time.Now().Add(silence))
	_, err := conn.Read(make([]byte, 5))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading from a dropped connection: %v, want silence", err)
	}
	if !echoed(t, dial(t, p), arrives) {
		t.Error("a new connection is not served")
	}
}

func TestProxyIsSlowAndLosesInOrder(t *testing.T) {
	p, conn := proxied(t)
	p.Set(Conditions{Latency: 20 * time.Millisecond, Rate: 200_000, Loss: 0.2})
	sent := bytes.Repeat([]byte("0123456789"), 3000)
	go func() { _, _ = conn.Write(sent) }()
	began := time.Now()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("what arrived is not what was sent")
	}
	// 22 segments each way and at most one in five lost: some certainly are.
	if took := time.Since(began); took < minRetransmission {
		t.Errorf("30 kB took %s over a line that loses and has 200 kB a second", took)
	}
}
