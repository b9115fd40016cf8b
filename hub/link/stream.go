package link

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

type connectStream = grpc.BidiStreamingServer[fleetv1.ConnectRequest, fleetv1.ConnectResponse]

// connection is the I/O around one Conn: one goroutine receives and calls the
// Member, one sends, and the handler waits for the end, because its return is
// what interrupts the other two. It is the Peer that the Directory is given.
type connection struct {
	server *Server
	uid    types.UID
	stream connectStream
	log    logr.Logger

	mu   sync.Mutex
	conn *Conn

	wake  chan struct{}
	timer *time.Timer

	endOnce sync.Once
	ended   chan struct{}
	reason  error
}

// Connect serves one agent's stream.
func (s *Server) Connect(stream connectStream) error {
	uid, err := callerOf(stream.Context(), s.options.TrustDomain)
	if err != nil {
		return denied("Connect", err)
	}
	c := &connection{
		server: s, uid: uid, stream: stream,
		log:   log.FromContext(s.base).WithValues("clusterUID", uid),
		conn:  NewConn(s.options.HubTerm()),
		wake:  make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	if !s.register(c) {
		return denied("Connect", errDraining)
	}
	defer s.unregister(c)
	c.timer = time.AfterFunc(s.options.HelloTimeout, c.late)
	defer c.timer.Stop()
	go c.receive()
	go c.send()
	<-c.ended
	return statusOf(c.reason)
}

// register counts the two goroutines of a connection, unless the server
// drains.
func (s *Server) register(c *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.open[c] = true
	s.tasks.Add(2)
	return true
}

func (s *Server) unregister(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// end makes the handler return; the first reason stays.
func (c *connection) end(reason error) {
	c.endOnce.Do(func() {
		c.reason = reason
		close(c.ended)
	})
}

// late ends a connection whose agent took too long to open it.
func (c *connection) late() {
	c.mu.Lock()
	state := c.conn.State()
	c.mu.Unlock()
	switch state {
	case AwaitHello, Admitting:
		c.end(errHelloTimeout)
	case AwaitInventory:
		c.end(errInventoryTimeout)
	case Serving, Closed:
	}
}

// Put is Peer's.
func (c *connection) Put(order Order) {
	c.mu.Lock()
	changed := c.conn.Put(order)
	c.mu.Unlock()
	if changed {
		c.signal()
	}
}

// SetTemplates is Peer's.
func (c *connection) SetTemplates(t *fleetv1.TemplateSet) {
	c.mu.Lock()
	c.conn.SetTemplates(t)
	c.mu.Unlock()
	c.signal()
}

// Close is Peer's.
func (c *connection) Close(reason error) {
	if reason == nil {
		reason = errors.New("closed by the hub")
	}
	c.end(reason)
}

// signal wakes the sender; one signal stands for any number of changes.
func (c *connection) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// do runs a step of the state machine, after which there may be something to
// send.
func (c *connection) do(step func(*Conn)) {
	c.mu.Lock()
	step(c.conn)
	c.mu.Unlock()
	c.signal()
}

// send is the only one that sends. It blocks for as long as the agent does
// not read, and nobody waits for it.
func (c *connection) send() {
	defer c.server.tasks.Done()
	defer c.recovered()
	for {
		c.mu.Lock()
		message := c.conn.Next()
		c.mu.Unlock()
		if message == nil {
			select {
			case <-c.wake:
				continue
			case <-c.ended:
				return
			}
		}
		if err := c.stream.Send(message); err != nil {
			c.end(fmt.Errorf("sending: %w", err))
			return
		}
		countOrders(message)
	}
}

func countOrders(message *fleetv1.ConnectResponse) {
	for _, order := range message.GetOrders().GetItems() {
		kind := "assign"
		if order.GetWithdraw() != nil {
			kind = "withdraw"
		}
		metricOrders.WithLabelValues(kind).Inc()
	}
}
