package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// silence is how long a test checks that nothing arrives. A slow machine cannot make the
// check fail.
const silence = 100 * time.Millisecond

func TestProxyFollowsTheBackendThatListens(t *testing.T) {
	first, second := reserveAddress(t), echoServer(t, "b ")
	proxy := startProxy(t, first, second)
	conn := connect(t, proxy)
	conn.expect(t, "x", "b x")
	status, _ := proxy.Status()
	if status.Backend != second || status.Connections != 1 {
		t.Errorf("status %+v", status)
	}
	listener, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	serveEcho(t, listener, "a ")
	connect(t, proxy).expect(t, "x", "a x") // it came later, so it took over
	conn.expect(t, "x", "b x")
}

func TestProxyWithoutBackendRefuses(t *testing.T) {
	expectRefused(t, startProxy(t, reserveAddress(t)))
}

func TestProxyCutByReset(t *testing.T) {
	proxy := startProxy(t, echoServer(t, ""))
	conn := connect(t, proxy)
	conn.expect(t, "x", "x")
	must(t, proxy.Cut(CutReset))
	conn.expectReset(t)
	expectRefused(t, proxy)
	must(t, proxy.Heal())
	connect(t, proxy).expect(t, "x", "x")
}

func TestProxyCutByBlackholeHoldsBackBothWays(t *testing.T) {
	proxy := startProxy(t, echoServer(t, ""))
	conn := connect(t, proxy)
	conn.expect(t, "x", "x")
	must(t, proxy.Cut(CutBlackhole))
	conn.send(t, "held")
	conn.expectSilence(t)
	late := connect(t, proxy)
	late.send(t, "late")
	late.expectSilence(t)
	must(t, proxy.Heal())
	conn.expectLine(t, "held")
	late.expectLine(t, "late")
}

func TestProxyCutInOneDirection(t *testing.T) {
	for _, mode := range []CutMode{CutToHub, CutToAgent} {
		t.Run(string(mode), func(t *testing.T) {
			received := make(chan string, 10)
			proxy := startProxy(t, tickServer(t, received))
			conn := connect(t, proxy)
			conn.expectLine(t, "tick")
			must(t, proxy.Cut(mode))
			conn.send(t, "hello")
			if mode == CutToHub {
				conn.expectLine(t, "tick") // one may have been under way
				conn.expectLine(t, "tick")
				select {
				case got := <-received:
					t.Errorf("the hub received %q", got)
				default:
				}
				must(t, proxy.Heal())
			}
			if got := <-received; got != "hello" {
				t.Errorf("the hub received %q", got)
			}
			if mode == CutToAgent {
				conn.drain(t)
				conn.expectSilence(t)
				must(t, proxy.Heal())
			}
			conn.expectLine(t, "tick")
		})
	}
}

func TestProxySlowDelaysAndLimits(t *testing.T) {
	proxy := startProxy(t, echoServer(t, ""))
	conn := connect(t, proxy)
	must(t, proxy.Slow(50*time.Millisecond, 0))
	start := time.Now()
	conn.expect(t, "x", "x")
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("a round trip took %s over twice 50 ms", took)
	}
	must(t, proxy.Slow(0, 50_000))
	start = time.Now()
	conn.expect(t, strings.Repeat("x", 5_000), strings.Repeat("x", 5_000))
	conn.expect(t, "y", "y")
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("5 kB took %s at 50 kB/s", took)
	}
	must(t, proxy.Heal())
	conn.expect(t, "x", "x")
}

func TestProxyControlledFromAnotherProcess(t *testing.T) {
	proxy := startProxy(t, echoServer(t, ""))
	control := reserveAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- ServeControl(ctx, control, proxy) }()
	remote := Remote{Control: control}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := remote.Status()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	must(t, remote.Cut(CutToHub))
	must(t, remote.Slow(time.Millisecond, 1000))
	status, err := remote.Status()
	if want := (Status{Cut: CutToHub, Latency: time.Millisecond, BytesPerSecond: 1000}); err != nil || status != want {
		t.Errorf("status %+v, %v", status, err)
	}
	if err := remote.Cut("sideways"); err == nil || !strings.Contains(err.Error(), "no such cut") {
		t.Errorf("a cut that there is none of: %v", err)
	}
	must(t, remote.Heal())
	cancel()
	must(t, <-served)
}

type testConn struct {
	net.Conn
	lines *bufio.Reader
}

func connect(t *testing.T, proxy *Proxy) *testConn {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &testConn{Conn: conn, lines: bufio.NewReader(conn)}
}

func (c *testConn) send(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(c, line+"\n")
	must(t, err)
}

func (c *testConn) expect(t *testing.T, line, answer string) {
	t.Helper()
	c.send(t, line)
	c.expectLine(t, answer)
}

func (c *testConn) expectLine(t *testing.T, want string) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	got, err := c.lines.ReadString('\n')
	if err != nil || got != want+"\n" {
		t.Fatalf("got %.40q, %v, want %.40q", got, err, want)
	}
}

func (c *testConn) expectSilence(t *testing.T) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(silence)))
	if got, err := c.lines.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %q, %v, want silence", got, err)
	}
}

func (c *testConn) expectReset(t *testing.T) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := c.lines.ReadString('\n'); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v, want a reset", err)
	}
}

// expectRefused fails if a new connection is accepted.
func expectRefused(t *testing.T, proxy *Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	must(t, err)
	defer conn.Close()
	(&testConn{Conn: conn, lines: bufio.NewReader(conn)}).expectReset(t)
}

// drain reads until nothing comes for a while.
func (c *testConn) drain(t *testing.T) {
	t.Helper()
	for {
		must(t, c.SetReadDeadline(time.Now().Add(silence)))
		if _, err := c.lines.ReadString('\n'); err != nil {
			return
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func startProxy(t *testing.T, backends ...string) *Proxy {
	t.Helper()
	proxy, err := Start("127.0.0.1:0", backends)
	must(t, err)
	t.Cleanup(func() { _ = proxy.Stop() })
	return proxy
}

// reserveAddress returns an address without a listener.
func reserveAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func echoServer(t *testing.T, prefix string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serveEcho(t, listener, prefix)
	return listener.Addr().String()
}

func serveEcho(t *testing.T, listener net.Listener, prefix string) {
	serve(t, listener, func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, prefix+line)
		}
	})
}

// tickServer sends "tick" all the time and passes on what it receives.
func tickServer(t *testing.T, received chan<- string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serve(t, listener, func(conn net.Conn) {
		go func() {
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				received <- lines.Text()
			}
		}()
		for {
			if _, err := io.WriteString(conn, "tick\n"); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return listener.Addr().String()
}

func serve(t *testing.T, listener net.Listener, handle func(net.Conn)) {
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
}
