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

// packetsInFlight is how many segments a direction holds while they are on their way: beyond that
// the sender has to wait.
const packetsInFlight = 64

// Conditions are how a proxy treats what it carries. The zero value delivers everything at once.
type Conditions struct {
	// Latency is the delay of each direction, and Rate its bytes a second (0: unlimited).
	Latency time.Duration
	Rate    int
	// Loss is the part of the segments that are lost. TCP sends a lost segment again, so that what
	// is above TCP sees a stall, and all that follows waits for it: the proxy emulates that, since
	// this kernel has no netem. A stall is a round trip and a retransmission timeout.
	Loss float64
	// CutToHub and CutToAgent deliver nothing in that direction, and end no connection.
	CutToHub, CutToAgent bool
}

// minRetransmission is the shortest retransmission timeout of Linux.
const minRetransmission = 200 * time.Millisecond

// Proxy emulates the network before a TCP address, such as the one where agents find the hub's
// leader.
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

// connection is one that the proxy carries.
type connection struct {
	client, server net.Conn
	// lost means that a router has dropped its state: nothing is delivered, not even the end of the
	// stream.
	lost bool
}

// NewProxy listens on a port of its own, and forwards to where to says.
func NewProxy(to func() string, seed uint64) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a wire: %w", err)
	}
	w := &Proxy{
		listener: listener, target: to, random: rand.New(rand.NewPCG(seed, 1)),
		changed: make(chan struct{}), open: map[*connection]struct{}{},
	}
	w.done.Go(w.accept)
	return w, nil
}

func (w *Proxy) Addr() string { return w.listener.Addr().String() }

// Close ends the proxy and all connections.
func (w *Proxy) Close() {
	_ = w.listener.Close()
	w.Set(Conditions{})
	w.Reset()
	w.done.Wait()
}

func (w *Proxy) Set(now Conditions) {
	w.change(func() { w.conditions = now })
}

func (w *Proxy) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// DropSilently loses every open connection without a reset: both ends keep it open. New connections
// work. It returns how many it lost.
func (w *Proxy) DropSilently() int {
	n := 0
	w.change(func() {
		for c := range w.open {
			c.lost = true
			n++
		}
	})
	return n
}

// Reset resets all connections, the silently dropped ones too.
func (w *Proxy) Reset() {
	w.change(func() {
		for c := range w.open {
			c.reset()
			delete(w.open, c)
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

func (w *Proxy) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		c := &connection{client: client}
		w.change(func() { w.open[c] = struct{}{} })
		w.done.Go(func() { w.forward(c) })
	}
}

// forward carries both directions until both are done.
func (w *Proxy) forward(c *connection) {
	defer w.remove(c)
	if !w.waitUntilOpen(c, func(now Conditions) bool { return !now.CutToHub }) {
		return
	}
	w.mu.Lock()
	to := w.target
	w.mu.Unlock()
	server, err := net.DialTimeout("tcp", to(), 2*time.Second)
	if err != nil {
		return
	}
	kept := false
	w.change(func() {
		if _, kept = w.open[c]; kept {
			c.server = server
		}
	})
	if !kept {
		_ = server.Close()
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { w.pump(c, c.client, server, func(now Conditions) bool { return !now.CutToHub }) })
	pumps.Go(func() { w.pump(c, server, c.client, func(now Conditions) bool { return !now.CutToAgent }) })
	pumps.Wait()
}

func (w *Proxy) remove(c *connection) {
	w.change(func() {
		c.reset()
		delete(w.open, c)
	})
}

// waitUntilOpen waits until a direction of the connection is open; it returns false once the
// connection has ended.
func (w *Proxy) waitUntilOpen(c *connection, open func(Conditions) bool) bool {
	for {
		w.mu.Lock()
		_, there := w.open[c]
		isOpen, changed := open(w.conditions) && !c.lost, w.changed
		w.mu.Unlock()
		if !there || isOpen {
			return there
		}
		<-changed
	}
}

// packet is a segment on its way.
type packet struct {
	data []byte
	due  time.Time
}

// pump carries one direction. The end of the stream is delivered like data: not at all while the
// direction is cut.
func (w *Proxy) pump(c *connection, from, to net.Conn, open func(Conditions) bool) {
	pieces := make(chan packet, packetsInFlight)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, segmentSize)
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- packet{buffer[:n], time.Now().Add(w.delay())}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if !w.waitUntilOpen(c, open) || !w.deliver(to, p.data) {
			c.reset()
			for range pieces { // lets the reader end
			}
			return
		}
	}
	if w.waitUntilOpen(c, open) {
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
}

// delay returns that of the next segment, with the stall of a lost one.
func (w *Proxy) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.conditions.Latency
	if w.conditions.Loss > 0 && w.random.Float64() < w.conditions.Loss {
		d += max(minRetransmission, 3*w.conditions.Latency)
	}
	return d
}

func (w *Proxy) deliver(to io.Writer, data []byte) bool {
	if _, err := to.Write(data); err != nil {
		return false
	}
	w.mu.Lock()
	rate := w.conditions.Rate
	w.mu.Unlock()
	if rate > 0 {
		time.Sleep(time.Duration(len(data)) * time.Second / time.Duration(rate))
	}
	return true
}
