package faults

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// through opens a connection over a wire to an echo.
func through(t *testing.T) (*wire, net.Conn) {
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
	w, err := newWire(func() string { return echo.Addr().String() }, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w, dial(t, w)
}

func dial(t *testing.T, w *wire) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", w.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// echoes says something and hears it within a time, or not.
func echoes(t *testing.T, conn net.Conn, within time.Duration) bool {
	t.Helper()
	if _, err := conn.Write([]byte("hello")); err != nil {
		return false
	}
	_ = conn.SetReadDeadline(time.Now().Add(within))
	got := make([]byte, 5)
	_, err := io.ReadFull(conn, got)
	return err == nil && bytes.Equal(got, []byte("hello"))
}

const soon, never = 10 * time.Second, 200 * time.Millisecond

func TestAWireCutsEitherWay(t *testing.T) {
	for name, cut := range map[string]weather{"to hub": {CutToHub: true}, "to agent": {CutToAgent: true}} {
		t.Run(name, func(t *testing.T) {
			w, conn := through(t)
			if !echoes(t, conn, soon) {
				t.Fatal("nothing came back on a fair day")
			}
			w.set(cut)
			if echoes(t, conn, never) {
				t.Error("something came through a cut")
			}
			w.set(weather{})
			_ = conn.SetReadDeadline(time.Now().Add(soon))
			if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
				t.Errorf("what was held back was not delivered: %v", err)
			}
		})
	}
}

func TestAForgottenConnectionIsSilentAndNotReset(t *testing.T) {
	w, conn := through(t)
	if !echoes(t, conn, soon) {
		t.Fatal("nothing came back on a fair day")
	}
	if n := w.forget(); n != 1 {
		t.Fatalf("%d connections forgotten, want 1", n)
	}
	_, _ = conn.Write([]byte("hello"))
	_ = conn.SetReadDeadline(time.Now().Add(never))
	_, err := conn.Read(make([]byte, 5))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading from a forgotten connection: %v, want silence", err)
	}
	if !echoes(t, dial(t, w), soon) {
		t.Error("a new connection is not served")
	}
}

func TestAWireIsSlowAndLosesInOrder(t *testing.T) {
	w, conn := through(t)
	w.set(weather{Latency: 20 * time.Millisecond, Rate: 200_000, Loss: 0.2})
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
	// 22 segments each way and at most one in five lost: some surely are.
	if took := time.Since(began); took < leastRetransmission {
		t.Errorf("30 kB took %s over a line that loses and has 200 kB a second", took)
	}
}
