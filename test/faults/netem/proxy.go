package netem

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// CutOff is a partition: nothing arrives either way, and no connection ends.
var CutOff = Conditions{CutToHub: true, CutToAgent: true}

// segmentSize is the part of a stream that is lost, delayed and paced as one, in bytes.
const segmentSize = 1400

// segmentsInFlight is the most segments on their way in one direction: beyond that the sender
// waits.
const segmentsInFlight = 64

// Conditions are those of the emulated network. The zero value delivers everything at once.
type Conditions struct {
	// Latency is the delay of each direction, and Rate its bytes a second; 0 is unlimited.
	Latency time.Duration
	Rate    int
	// Loss is the part of the segments that are lost, 0 to 1. TCP retransmits a lost segment, and
	// delivers nothing that follows before it: the proxy emulates that stall, of a round trip and
	// a retransmission timeout, since this kernel has no netem.
	Loss float64
	// CutToHub and CutToAgent deliver nothing in that direction, and end no connection.
	CutToHub, CutToAgent bool
}

// minRetransmission is the shortest retransmission timeout of Linux.
const minRetransmission = 200 * time.Millisecond

// Proxy emulates the network in front of a TCP address, such as that of the hub's leader.
type Proxy struct {
	listener net.Listener
	random   *rand.Rand

	mu         sync.Mutex
	target     func() string
	changed    chan struct{}
	conditions Conditions
	open       map[*connection]struct{}
	done       sync.WaitGroup
}

// connection is a connection that the proxy forwards.
type connection struct {
	client, server net.Conn
	// lost means that a router has dropped its state: nothing is delivered, not even the end of the
	// stream.
	lost bool
}

// NewProxy listens on a port of its own, and forwards to the address that to returns.
func NewProxy(to func() string, seed uint64) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a proxy: %w", err)
	}
	p := &Proxy{
		listener: listener, target: to, random: rand.New(rand.NewPCG(seed, 1)),
		changed: make(chan struct{}), open: map[*connection]struct{}{},
	}
	p.done.Go(p.accept)
	return p, nil
}

// Addr returns the address that the proxy listens on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and all connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Set(Conditions{})
	p.Reset()
	p.done.Wait()
}

// Set changes the conditions of every connection, open and new.
func (p *Proxy) Set(now Conditions) {
	p.change(func() { p.conditions = now })
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// DropSilently drops every open connection without a reset: both ends keep it open. New
// connections work. It returns how many it dropped.
func (p *Proxy) DropSilently() int {
	n := 0
	p.change(func() {
		for c := range p.open {
			c.lost = true
			n++
		}
	})
	return n
}

// Reset resets all connections, the silently dropped ones too.
func (p *Proxy) Reset() {
	p.change(func() {
		for c := range p.open {
			c.reset()
			delete(p.open, c)
		}
	})
}

func (c *connection) reset() {
	for _, end := range []net.Conn{c.client, c.server} {
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
		c := &connection{client: client}
		p.change(func() { p.open[c] = struct{}{} })
		p.done.Go(func() { p.forward(c) })
	}
}

// forward carries both directions until both are done.
func (p *Proxy) forward(c *connection) {
	defer p.remove(c)
	if !p.waitUntilOpen(c, func(now Conditions) bool { return !now.CutToHub }) {
		return
	}
	p.mu.Lock()
	to := p.target
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", to(), 2*time.Second)
	if err != nil {
		return
	}
	kept := false
	p.change(func() {
		if _, kept = p.open[c]; kept {
			c.server = server
		}
	})
	if !kept {
		_ = server.Close()
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(c, c.client, server, func(now Conditions) bool { return !now.CutToHub }) })
	pumps.Go(func() { p.pump(c, server, c.client, func(now Conditions) bool { return !now.CutToAgent }) })
	pumps.Wait()
}

func (p *Proxy) remove(c *connection) {
	p.change(func() {
		c.reset()
		delete(p.open, c)
	})
}

// waitUntilOpen waits until a direction of the connection is open; it returns false once the
// connection has ended.
func (p *Proxy) waitUntilOpen(c *connection, open func(Conditions) bool) bool {
	for {
		p.mu.Lock()
		_, found := p.open[c]
		isOpen, changed := open(p.conditions) && !c.lost, p.changed
		p.mu.Unlock()
		if !found || isOpen {
			return found
		}
		<-changed
	}
}

// segment is a part of a stream on its way.
type segment struct {
	data []byte
	due  time.Time
}

// pump carries one direction. The end of the stream is delivered like data: not at all while the
// direction is cut.
func (p *Proxy) pump(c *connection, from, to net.Conn, open func(Conditions) bool) {
	segments := make(chan segment, segmentsInFlight)
	go func() {
		defer close(segments)
		for {
			buffer := make([]byte, segmentSize)
			n, err := from.Read(buffer)
			if n > 0 {
				segments <- segment{buffer[:n], time.Now().Add(p.delay())}
			}
			if err != nil {
				return
			}
		}
	}()
	for next := range segments {
		time.Sleep(time.Until(next.due))
		if !p.waitUntilOpen(c, open) || !p.deliver(to, next.data) {
			c.reset()
			for range segments { // so that the reader ends
			}
			return
		}
	}
	if p.waitUntilOpen(c, open) {
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
}

// delay returns the delay of the next segment, with a stall if that is lost.
func (p *Proxy) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.conditions.Latency
	if p.conditions.Loss > 0 && p.random.Float64() < p.conditions.Loss {
		d += max(minRetransmission, 3*p.conditions.Latency)
	}
	return d
}

func (p *Proxy) deliver(to io.Writer, data []byte) bool {
	if _, err := to.Write(data); err != nil {
		return false
	}
	p.mu.Lock()
	rate := p.conditions.Rate
	p.mu.Unlock()
	if rate > 0 {
		time.Sleep(time.Duration(len(data)) * time.Second / time.Duration(rate))
	}
	return true
}
