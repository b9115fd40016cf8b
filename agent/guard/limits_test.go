package guard

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// files is a listener of a process with a limit of open files.
type files struct {
	net.Listener
	limit      int64
	open, peak atomic.Int64
}

func (f *files) Accept() (net.Conn, error) {
	if f.open.Load() >= f.limit {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: f.Addr(), Err: syscall.EMFILE}
	}
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	now := f.open.Add(1)
	for peak := f.peak.Load(); now > peak && !f.peak.CompareAndSwap(peak, now); peak = f.peak.Load() {
	}
	return &file{Conn: conn, done: sync.OnceFunc(func() { f.open.Add(-1) })}, nil
}

type file struct {
	net.Conn
	done func()
}

func (f *file) Close() error {
	defer f.done()
	return f.Conn.Close()
}

func (f *file) SetLinger(seconds int) error { return f.Conn.(*net.TCPConn).SetLinger(seconds) }

// flood keeps connections from one address open that send nothing, until the test
// ends. Each that is closed is opened again.
func flood(t *testing.T, from, to string, connections int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	var opened, group sync.WaitGroup
	opened.Add(connections)
	for range connections {
		first := sync.OnceFunc(opened.Done)
		group.Go(func() {
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", to)
				first()
				if err != nil {
					continue
				}
				unblock := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.Copy(io.Discard, conn)
				unblock()
				_ = conn.Close()
			}
		})
	}
	opened.Wait()
	t.Cleanup(func() { stop(); group.Wait() })
}

// limitedTo restarts an agent's endpoint in a process with a limit of connections.
func (a *agent) limitedTo(connections int64) *files {
	a.t.Helper()
	a.stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.t.Fatal(err)
	}
	limited := &files{Listener: listener, limit: connections}
	a.serveOn(limited)
	return limited
}

// A desktop opens connections to the agent's port and sends nothing. Without a limit they
// exhaust the agent's files, and no guard gets an answer.
func TestFloodOfOneAddressLeavesOtherGuardsTheirAnswers(t *testing.T) {
	a := newAgent(t, assignment())
	a.lease(time.Hour)
	limited := a.limitedTo(200)
	flood(t, "127.0.0.2", a.address(), 300)
	client, err := newClient(a.clientOptions(), false, boottime.Now)
	if err != nil {
		t.Fatal(err)
	}
	client.timeout = 2 * time.Second // less than the flood's connections may last
	for range burst {                // more at once are refused whether there is a flood or not
		if _, left, err := client.send(t.Context()); err != nil || left <= 0 {
			t.Fatalf("the guard of another Pod gets no answer: %v", err)
		}
	}
	if peak := limited.peak.Load(); peak > maxConnectionsPerAddress+10 {
		t.Errorf("one address had %d connections", peak)
	}
}

// Many addresses together stay within the total limit.
func TestFloodOfManyAddressesIsBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := newLimitListener(listener, 4, 2)
	defer limited.Close()
	accepted := make(chan net.Conn, 16)
	go func() {
		for {
			conn, err := limited.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	open := func(from string) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.Dial("tcp", listener.Addr().String())
		if errors.Is(err, syscall.ECONNRESET) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	closed := func(conn net.Conn) {
		t.Helper()
		if conn == nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(testTimeout))
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("a connection beyond the limits stays open: %v", err)
		}
	}
	var held []net.Conn
	for _, from := range []string{"127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3"} {
		open(from)
		held = append(held, <-accepted)
	}
	closed(open("127.0.0.2")) // beyond its own
	closed(open("127.0.0.4")) // beyond all
	_ = held[3].Close()
	_ = held[3].Close() // releases its place once
	open("127.0.0.4")
	<-accepted
	closed(open("127.0.0.5"))
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// A desktop opens connections to its own guard, to have it killed for its memory and use its
// port. The guard accepts few, and still answers the kubelet.
func TestGuardHoldsFewConnectionsOfItsDesktop(t *testing.T) {
	a := newAgent(t, assignment())
	a.lease(time.Hour)
	g := a.guard()
	g.until(http.StatusOK)
	address := g.url[len("http://"):]
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	const connections = 200
	held := make(chan bool, connections)
	for range connections {
		conn, err := dialer.Dial("tcp", address)
		if err != nil {
			held <- false // closed already
			continue
		}
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			// Much less than the timeout of a request, and much more than to close a
			// rejected connection.
			_ = conn.SetReadDeadline(time.Now().Add(headerTimeout / 2))
			_, err := conn.Read(make([]byte, 1))
			held <- isTimeout(err)
		}()
	}
	open := 0
	for range connections {
		if <-held {
			open++
		}
	}
	if open > maxProbesPerAddress {
		t.Errorf("the guard holds %d connections of one address", open)
	}
	if code, body := g.probe(render.PathLease); code != http.StatusOK {
		t.Errorf("the kubelet receives %d: %s", code, body)
	}
}
