package faults

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// segment is how much of a stream is lost, delayed and paced as one.
const segment = 1400

// inFlight is how many segments a direction holds while they are on their way:
// beyond that the sender feels it.
const inFlight = 64

// weather is how a wire treats what it carries. The zero value is a fair day.
type weather struct {
	// Latency of each direction, and its rate in bytes a second (0: unlimited).
	Latency time.Duration
	Rate    int
	// Loss is the part of the segments that are lost. TCP sends a lost segment
	// again, so what is above TCP sees a stall, and all that comes after waits
	// for it: this is what is emulated, since this kernel has no netem. A stall
	// is a round trip and a retransmission timeout.
	Loss float64
	// ToHub and ToAgent deliver nothing that way, and tell nobody.
	CutToHub, CutToAgent bool
}

// leastRetransmission is Linux's least retransmission timeout.
const leastRetransmission = 200 * time.Millisecond

// wire is the network between a member's agent and what leads to the hub: the
// harness's proxy, which finds the leader.
type wire struct {
	listener net.Listener
	random   *rand.Rand

	mu      sync.Mutex
	to      func() string
	changed chan struct{}
	now     weather
	open    map[*crossing]struct{}
	done    sync.WaitGroup
}

// crossing is one connection.
type crossing struct {
	client, server net.Conn
	// lost: a router has forgotten it. Nothing is delivered and nobody is told,
	// the end of an end included.
	lost bool
}

// newWire listens on a port of its own, and forwards.
func newWire(to func() string, seed uint64) (*wire, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a wire: %w", err)
	}
	w := &wire{
		listener: listener, to: to, random: rand.New(rand.NewPCG(seed, 1)),
		changed: make(chan struct{}), open: map[*crossing]struct{}{},
	}
	w.done.Go(w.accept)
	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

// close ends it and all that it carries.
func (w *wire) close() {
	_ = w.listener.Close()
	w.set(weather{})
	w.reset()
	w.done.Wait()
}

func (w *wire) set(now weather) {
	w.change(func() { w.now = now })
}

func (w *wire) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// forget loses every connection that there is, without a reset: both ends
// believe that it is there. New ones are welcome.
func (w *wire) forget() int {
	n := 0
	w.change(func() {
		for c := range w.open {
			c.lost = true
			n++
		}
	})
	return n
}

// reset ends all connections, the forgotten ones too.
func (w *wire) reset() {
	w.change(func() {
		for c := range w.open {
			c.reset()
			delete(w.open, c)
		}
	})
}

func (c *crossing) reset() {
	for _, end := range []net.Conn{c.client, c.server} {
		if tcp, ok := end.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		c := &crossing{client: client}
		w.change(func() { w.open[c] = struct{}{} })
		w.done.Go(func() { w.carry(c) })
	}
}

// carry pumps both ways until both are done.
func (w *wire) carry(c *crossing) {
	defer w.drop(c)
	if !w.wait(c, func(now weather) bool { return !now.CutToHub }) {
		return
	}
	w.mu.Lock()
	to := w.to
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
	pumps.Go(func() { w.pump(c, c.client, server, func(now weather) bool { return !now.CutToHub }) })
	pumps.Go(func() { w.pump(c, server, c.client, func(now weather) bool { return !now.CutToAgent }) })
	pumps.Wait()
}

func (w *wire) drop(c *crossing) {
	w.change(func() {
		c.reset()
		delete(w.open, c)
	})
}

// wait until this crossing is open; false: it is no more.
func (w *wire) wait(c *crossing, open func(weather) bool) bool {
	for {
		w.mu.Lock()
		_, there := w.open[c]
		isOpen, changed := open(w.now) && !c.lost, w.changed
		w.mu.Unlock()
		if !there || isOpen {
			return there
		}
		<-changed
	}
}

// piece is a segment on its way.
type piece struct {
	data []byte
	due  time.Time
}

// pump carries one direction. The end of the stream is delivered like data: not
// at all while the direction is cut.
func (w *wire) pump(c *crossing, from, to net.Conn, open func(weather) bool) {
	pieces := make(chan piece, inFlight)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, segment)
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- piece{buffer[:n], time.Now().Add(w.delay())}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if !w.wait(c, open) || !w.deliver(to, p.data) {
			c.reset()
			for range pieces { // let the reader end
			}
			return
		}
	}
	if w.wait(c, open) {
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
}

// delay of the next segment, the stall of a lost one included.
func (w *wire) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.now.Latency
	if w.now.Loss > 0 && w.random.Float64() < w.now.Loss {
		d += max(leastRetransmission, 3*w.now.Latency)
	}
	return d
}

func (w *wire) deliver(to io.Writer, data []byte) bool {
	if _, err := to.Write(data); err != nil {
		return false
	}
	w.mu.Lock()
	rate := w.now.Rate
	w.mu.Unlock()
	if rate > 0 {
		time.Sleep(time.Duration(len(data)) * time.Second / time.Duration(rate))
	}
	return true
}
