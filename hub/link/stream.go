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

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

type connectStream = grpc.BidiStreamingServer[fleetv1.ConnectRequest, fleetv1.ConnectResponse]

// connection is the I/O around one Conn: one goroutine receives and calls the
// Member, one sends, one watches whether the agent keeps up, and the handler
// waits for the end, because its return is what interrupts the others. It is
// the Peer that the Directory is given.
type connection struct {
	server *Server
	// caller that was let in, of the member with this UID.
	caller Caller
	uid    types.UID
	stream connectStream
	log    logr.Logger

	mu   sync.Mutex
	conn *protocol.Conn
	ways *ways
	// member and instance are those that were let in.
	member   Member
	instance string

	// telling is held while the member is called, and over that it was closed.
	telling sync.Mutex
	over    bool

	wake  chan struct{}
	timer *time.Timer

	endOnce sync.Once
	ended   chan struct{}
	reason  error
}

// Connect serves one agent's stream.
func (s *Server) Connect(stream connectStream) error {
	caller, err := callerFrom(stream.Context())
	if err != nil {
		return statusOf(err)
	}
	c := &connection{
		server: s, caller: caller, uid: caller.Member, stream: stream,
		log:   log.FromContext(s.base).WithValues("clusterUID", caller.Member),
		conn:  protocol.NewConn(s.options.HubTerm(), s.options.Tuning),
		ways:  newWays(s.options.Trace),
		wake:  make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	if !s.register(c) {
		countDenied("Connect", errDraining)
		return statusOf(errDraining)
	}
	defer s.unregister(c)
	c.timer = time.AfterFunc(s.options.HelloTimeout, c.late)
	defer c.timer.Stop()
	go c.receive()
	go c.send()
	go c.watch()
	<-c.ended
	return statusOf(c.reason)
}

// register counts the three goroutines of a connection, unless the server
// drains.
func (s *Server) register(c *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.open[c] = true
	s.tasks.Add(3)
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
	case protocol.AwaitHello, protocol.Admitting:
		c.end(errHelloTimeout)
	case protocol.AwaitDigest, protocol.AwaitInventory:
		c.end(errInventoryTimeout)
	case protocol.Serving, protocol.Closed:
	}
}

// Put is Peer's.
func (c *connection) Put(order protocol.Order) {
	c.mu.Lock()
	changed := c.conn.Put(order)
	if changed {
		c.ways.put(order)
	}
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
func (c *connection) do(step func(*protocol.Conn)) {
	c.mu.Lock()
	step(c.conn)
	c.mu.Unlock()
	c.signal()
}

// send is the only one that sends. It blocks for as long as the agent does
// not read, but no longer than SendTimeout, and nobody waits for it.
func (c *connection) send() {
	defer c.server.tasks.Done()
	defer c.recovered()
	for {
		c.mu.Lock()
		message := c.conn.Next()
		refused := c.conn.Outbox().Refused()
		c.mu.Unlock()
		c.refuse(refused)
		if message == nil {
			select {
			case <-c.wake:
				continue
			case <-c.ended:
				return
			}
		}
		if err := c.sendOne(message); err != nil {
			c.end(fmt.Errorf("sending: %w", err))
			return
		}
		countOrders(message)
		if message.GetOrders() != nil && c.server.options.Ordered != nil {
			c.server.options.Ordered()
		}
		c.traceSent(message)
	}
}

// traceSent is for sessions that are traced; else it costs nothing.
func (c *connection) traceSent(message *fleetv1.ConnectResponse) {
	if c.ways != nil && message.GetOrders() != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ways.sent(message)
	}
}

func (c *connection) sendOne(message *fleetv1.ConnectResponse) error {
	timeout := c.server.options.SendTimeout
	blocked := time.AfterFunc(timeout, func() {
		c.end(fmt.Errorf("%w: it has not read a message for %s", protocol.ErrStalled, timeout))
	})
	defer blocked.Stop()
	return c.stream.Send(message)
}

// refuse tells the member of orders that can't be sent.
func (c *connection) refuse(results []protocol.Result) {
	if len(results) == 0 {
		return
	}
	c.tell(func(member Member) {
		countResults(results)
		member.Results(results)
	})
}

// tell calls the member, unless it has heard its last.
func (c *connection) tell(f func(Member)) {
	c.telling.Lock()
	defer c.telling.Unlock()
	if member := c.admitted(); member != nil && !c.over {
		f(member)
	}
}

func (c *connection) admitted() Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member
}

// watch ends the connection if the agent does not keep up.
func (c *connection) watch() {
	defer c.server.tasks.Done()
	defer c.recovered()
	ticker := time.NewTicker(max(c.server.options.Tuning.AckTimeout/ticksPerTimeout, time.Millisecond))
	defer ticker.Stop()
	for {
		c.mu.Lock()
		err := c.conn.Tick(time.Now())
		age := c.conn.UnacknowledgedAge()
		c.mu.Unlock()
		metricUnacknowledged.Observe(age.Seconds())
		if err != nil {
			c.end(err)
			return
		}
		select {
		case <-ticker.C:
		case <-c.ended:
			return
		}
	}
}

// ticksPerTimeout is how often a connection is looked at within the time that
// a batch may go unacknowledged.
const ticksPerTimeout = 12

func countOrders(message *fleetv1.ConnectResponse) {
	for _, order := range message.GetOrders().GetItems() {
		kind := "assign"
		if order.GetWithdraw() != nil {
			kind = "withdraw"
		}
		metricOrders.WithLabelValues(kind).Inc()
	}
}
