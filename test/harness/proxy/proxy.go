package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Proxy is a TCP proxy between an agent and the hub: a Link. In a fleet a new
// connection goes to the backend of the hub's Service; a proxy with a list of backends
// takes the one that accepts it.
type Proxy struct {
	choose   func() string // nil if there is a list
	backends []string
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change of status or connections
	status  Status
	conns   map[*connection]struct{}
	since   []time.Time // when each backend was first found listening, zero if it was not
	closed  bool
}

// connection is one connection through the proxy, server being nil until the
// backend is connected.
type connection struct {
	client, server net.Conn
}

var _ Link = (*Proxy)(nil)

// Start listens on the address and forwards to the backend that listens.
func Start(listen string, backends []string) (*Proxy, error) {
	return start(listen, nil, backends)
}

// StartTo listens on the address and forwards each connection to where
// choose returns at that moment; "" refuses it. A backend on the loopback interface sees
// connections from the IP address on which the proxy listens: each proxy can be another client
// of a hub that limits clients by their addresses.
func StartTo(listen string, choose func() string) (*Proxy, error) {
	return start(listen, choose, nil)
}

func start(listen string, choose func() string, backends []string) (*Proxy, error) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("starting proxy: %w", err)
	}
	p := &Proxy{
		choose:   choose,
		backends: backends,
		listener: listener,
		changed:  make(chan struct{}),
		conns:    map[*connection]struct{}{},
		since:    make([]time.Time, len(backends)),
	}
	p.done.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Stop ends the proxy and all its connections.
func (p *Proxy) Stop() error {
	p.change(func() { p.closed = true })
	err := p.listener.Close()
	p.reset()
	p.done.Wait()
	return err
}

// Cut implements Link.
func (p *Proxy) Cut(mode CutMode) error {
	if err := mode.check(); err != nil {
		return err
	}
	p.change(func() { p.status.Cut = mode })
	if mode == CutReset {
		p.reset()
	}
	return nil
}

// Slow implements Link.
func (p *Proxy) Slow(latency time.Duration, bytesPerSecond int) error {
	p.change(func() { p.status.Latency, p.status.BytesPerSecond = latency, bytesPerSecond })
	return nil
}

// Heal implements Link.
func (p *Proxy) Heal() error {
	p.change(func() { p.status.Cut, p.status.Latency, p.status.BytesPerSecond = "", 0, 0 })
	return nil
}

// DropConnections implements Link.
func (p *Proxy) DropConnections() error {
	p.reset()
	return nil
}

// Status implements Link.
func (p *Proxy) Status() (Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status
	status.Connections = len(p.conns)
	return status, nil
}

func (p *Proxy) change(apply func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	apply()
	close(p.changed)
	p.changed = make(chan struct{})
}

// reset ends all connections with a RST.
func (p *Proxy) reset() {
	p.change(func() {
		for conn := range p.conns {
			conn.reset()
			delete(p.conns, conn)
		}
	})
}

func (conn *connection) reset() {
	for _, end := range []net.Conn{conn.client, conn.server} {
		if tcp, ok := end.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		conn := &connection{client: client}
		p.mu.Lock()
		refuse := p.closed || p.status.Cut == CutReset
		if !refuse {
			p.conns[conn] = struct{}{}
		}
		p.mu.Unlock()
		if refuse {
			conn.reset()
			continue
		}
		p.done.Go(func() { p.serve(conn) })
	}
}

// serve connects to the backend, once the network allows it, and copies until both directions
// have ended.
func (p *Proxy) serve(conn *connection) {
	defer p.drop(conn)
	if !p.waitOpen(conn, func(cut CutMode) bool { return cut == "" || cut == CutToAgent }) {
		return
	}
	server, backend := p.dial()
	if server == nil {
		return
	}
	p.mu.Lock()
	_, kept := p.conns[conn]
	if kept {
		conn.server, p.status.Backend = server, backend
	}
	p.mu.Unlock()
	if !kept { // reset meanwhile
		_ = server.Close()
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(conn, conn.client, server, CutToHub) })
	pumps.Go(func() { p.pump(conn, server, conn.client, CutToAgent) })
	pumps.Wait()
}

// dialTimeout is how long a backend may take to accept. Even a paused one accepts at once.
const dialTimeout = 2 * time.Second

func (p *Proxy) dial() (net.Conn, string) {
	if p.choose == nil {
		return p.dialBackend()
	}
	backend := p.choose()
	if backend == "" {
		return nil, ""
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	if own, ok := p.listener.Addr().(*net.TCPAddr); ok && own.IP.IsLoopback() && isLoopback(backend) {
		dialer.LocalAddr = &net.TCPAddr{IP: own.IP}
	}
	conn, err := dialer.Dial("tcp", backend)
	if err != nil {
		return nil, ""
	}
	return conn, backend
}

// isLoopback reports whether an address is in the IPv4 network of the loopback interface.
func isLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Is4() && at.Addr().IsLoopback()
}

// dialBackend connects to the backend that listens. A paused process appears to listen still:
// if several do, the one that began to listen last wins, the replica that took over.
func (p *Proxy) dialBackend() (net.Conn, string) {
	conns := make([]net.Conn, len(p.backends))
	var dials sync.WaitGroup
	for i, backend := range p.backends {
		dials.Go(func() {
			conns[i], _ = net.DialTimeout("tcp", backend, dialTimeout)
		})
	}
	dials.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i, conn := range conns {
		switch {
		case conn == nil:
			p.since[i] = time.Time{}
			continue
		case p.since[i].IsZero():
			p.since[i] = time.Now()
		}
		if best < 0 || p.since[i].After(p.since[best]) {
			best = i
		}
	}
	for i, conn := range conns {
		if conn != nil && i != best {
			_ = conn.Close()
		}
	}
	if best < 0 {
		return nil, ""
	}
	return conns[best], p.backends[best]
}

// drop removes a connection and resets it if it is still open, which also refuses a client
// that has no backend.
func (p *Proxy) drop(conn *connection) {
	p.change(func() {
		if _, there := p.conns[conn]; there {
			conn.reset()
			delete(p.conns, conn)
		}
	})
}

// waitOpen waits until the network is open, and reports whether the connection still
// exists.
func (p *Proxy) waitOpen(conn *connection, open func(CutMode) bool) bool {
	for {
		p.mu.Lock()
		_, there := p.conns[conn]
		isOpen, changed := open(p.status.Cut), p.changed
		p.mu.Unlock()
		if !there || isOpen {
			return there
		}
		<-changed
	}
}

func (p *Proxy) speed() (latency time.Duration, bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.Latency, p.status.BytesPerSecond
}
