package guard

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// headerTimeout is how long a connection may take to send its request, which fits
	// in one packet.
	headerTimeout = time.Second
	// maxConnections of the agent's endpoint, and of one address among them. A Pod has
	// one address, and its guard or gate one connection at a time; behind a proxy that
	// hides the Pods of a node there are some 100 of them, each for a moment every few
	// seconds.
	maxConnections           = 1024
	maxConnectionsPerAddress = 16
	// maxProbes are the connections to a guard, where only the kubelet is expected.
	maxProbes           = 16
	maxProbesPerAddress = 8
)

// limitedServer returns an HTTP server for short requests of untrusted callers.
func limitedServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: serveTimeout, WriteTimeout: serveTimeout,
		MaxHeaderBytes: mostHeader,
	}
	// Requests are rare, and idle connections would count.
	server.SetKeepAlivesEnabled(false)
	return server
}

// limitListener limits the connections that are open at once, in total and for each
// address. It closes others at once, so that no address can block the others:
// netutil.LimitListener would let them wait behind a flood.
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
			return nil, err //nolint:wrapcheck // http.Server tries again after a net.Error that says that it is temporary.
		}
		address := addressOf(conn)
		if l.take(address) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(address) })}, nil
		}
		discard(conn)
	}
}

func (l *limitListener) take(address netip.Addr) bool {
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

// addressOf returns the peer's address, and the same invalid one for all that are no IP
// address.
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
	// burst is how many requests about one assignment are answered at once, and every the
	// interval after that, before the time factor: a guard that starts sends many.
	burst = 11
	every = time.Second / 2
	// mostLimited is the most assignments that are remembered.
	mostLimited = 20_000
)

// allow reports whether another request about an assignment is answered.
func (e *Endpoint) allow(uid string, now time.Time) bool {
	limiter, known := e.rates.Get(uid)
	if !known {
		limiter = rate.NewLimiter(rate.Every(time.Duration(float64(every)*e.options.TimeFactor)), burst)
		e.rates.Add(uid, limiter)
	}
	return limiter.(*rate.Limiter).AllowN(now, 1)
}
