package door

import (
	"bufio"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// auditLog has two lines for each WebSocket connection to a desktop.
var auditLog = ctrl.Log.WithName("audit")

// connection is the response to a browser that connects to a desktop, whose bytes are counted.
type connection struct {
	http.ResponseWriter
	opened             atomic.Bool
	received, returned atomic.Int64
}

// Unwrap returns the response for http.ResponseController.
func (c *connection) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Hijack takes over the browser's connection (http.Hijacker).
func (c *connection) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.opened.Store(true)
	return &counted{Conn: conn, of: c}, buffered, nil
}

// audit records that a browser connects, and returns a function that records the end.
func (c *connection) audit(r *http.Request, v visited, begin time.Time) func() {
	session := v.desktop.Session.Namespace + "/" + v.desktop.Session.Name
	connections.Inc()
	auditLog.Info("Connecting", "user", v.pass.User, "session", session, "epoch", v.pass.Epoch, "address", r.RemoteAddr)
	return func() {
		connections.Dec()
		auditLog.Info("Disconnected", "user", v.pass.User, "session", session, "epoch", v.pass.Epoch, "address", r.RemoteAddr,
			"connected", c.opened.Load(), "seconds", time.Since(begin).Seconds(), "bytesFromBrowser", c.received.Load(), "bytesToBrowser", c.returned.Load())
	}
}

// counted is a connection that counts what passes.
type counted struct {
	net.Conn
	of *connection
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.of.received.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.of.returned.Add(int64(n))
	return n, err
}
