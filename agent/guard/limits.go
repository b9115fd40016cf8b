package guard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var metricRejected = metrics.NewCounter("vdi_agent_guard_connections_rejected_total",
	"Connections for guards and gates that were rejected because of the limits, in total or of their address.")

const (
	// headerTimeout limits how long a connection takes to send its request, one packet.
	headerTimeout = time.Second
	// Connections to the agent's endpoint, and from one address. A guard or gate has one at
	// a time; behind a proxy, some 100 Pods of a node may share an address, each with a
	// short connection every few seconds.
	maxConnections           = 1024
	maxConnectionsPerAddress = 16
	// Connections to a guard, where only the kubelet is expected.
	maxProbes           = 16
	maxProbesPerAddress = 8
)

// serve serves short requests of untrusted callers until the context ends.
func serve(ctx context.Context, listener *limitListener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: serveTimeout, WriteTimeout: serveTimeout,
		MaxHeaderBytes: maxHeader,
	}
	// Idle connections would count against the limits.
	server.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// limitListener limits open connections, in total and for each address, and closes others
// at once: with netutil.LimitListener they would wait behind a flood.
type limitListener struct {
	net.Listener
	total, perAddress int

	mu   sync.Mutex
	open map[netip.Addr]int
	sum  int
}

func newLimitListener(l net.Listener, total, perAddress int) *limitListener {
	return &limitListener{Listener: l, total: total, perAddress: perAddress, open: map[netip.Addr]int{}}
}

// Accept returns the next connection that is within the limits.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server retries after a temporary net.Error.
		}
		address := addressOf(conn)
		if l.acquire(address) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(address) })}, nil
		}
		discard(conn)
	}
}

func (l *limitListener) acquire(address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sum >= l.total || l.open[address] >= l.perAddress {
		metricRejected.Inc()
		return false
	}
	l.sum++
	l.open[address]++
	return true
}

func (l *limitListener) release(address netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum--
	if l.open[address]--; l.open[address] == 0 {
		delete(l.open, address)
	}
}

// addressOf returns the peer's IP address, or the zero address.
func addressOf(conn net.Conn) netip.Addr {
	port, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return port.Addr().Unmap().WithZone("")
}

// discard closes a connection without lingering, so that the kernel keeps no state.
func discard(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// limitedConn is a connection that is counted until it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

const (
	// burst is how many requests about one assignment are answered at once, as when a guard
	// starts, and refillInterval the interval after that, before the time factor.
	burst          = 11
	refillInterval = time.Second / 2
	// maxLimited is the most assignments with a rate limiter.
	maxLimited = 20_000
)

// allow reports whether another request about an assignment is answered.
func (e *Endpoint) allow(uid string, now time.Time) bool {
	limiter, known := e.rates.Get(uid)
	if !known {
		limiter = rate.NewLimiter(rate.Every(time.Duration(float64(refillInterval)*e.options.TimeFactor)), burst)
		e.rates.Add(uid, limiter)
	}
	return limiter.(*rate.Limiter).AllowN(now, 1)
}
