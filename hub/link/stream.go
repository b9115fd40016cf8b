package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

type connectStream = grpc.BidiStreamingServer[fleetv1.ConnectRequest, fleetv1.ConnectResponse]

// connection is the I/O around one Conn, and the Peer of the Directory: one goroutine
// receives and calls the Member, one sends, one checks that the agent keeps up, and the
// handler waits for the end, because its return interrupts the others.
type connection struct {
	server *Server
	// caller that was admitted, of the member with this UID.
	caller Caller
	uid    types.UID
	stream connectStream
	log    logr.Logger

	mu     sync.Mutex
	conn   *protocol.Conn
	traces *orderTraces

	member memberCalls
	// instance of the agent; set before the connection is admitted.
	instance string

	wake  chan struct{}
	timer *time.Timer

	// ended is done once end was called; its cause is the first reason.
	ended context.Context
	end   context.CancelCauseFunc
}

// Connect serves one agent's stream.
func (s *Server) Connect(stream connectStream) error {
	caller, err := callerFrom(stream.Context())
	if err != nil {
		return statusOf(err)
	}
	// The end of the stream's context is no reason, so ended is independent of it.
	ended, end := context.WithCancelCause(context.WithoutCancel(stream.Context()))
	c := &connection{
		server: s, caller: caller, uid: caller.Member, stream: stream,
		log:    s.authorizer.log.WithValues("clusterUID", caller.Member),
		conn:   protocol.NewConn(s.terms.Current(), s.options.Tuning, time.Now()),
		traces: newOrderTraces(s.options.Trace),
		wake:   make(chan struct{}, 1),
		ended:  ended,
		end:    end,
	}
	if !s.connections.add(c) {
		countDenied("Connect", errDraining)
		return statusOf(errDraining)
	}
	defer s.connections.remove(c)
	c.timer = time.AfterFunc(s.options.Timeouts.Hello, c.openingTimeout)
	defer c.timer.Stop()
	go c.receive()
	go c.send()
	<-c.ended.Done()
	return statusOf(context.Cause(c.ended))
}

// openingTimeout ends a connection whose agent took too long to open it.
func (c *connection) openingTimeout() {
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

func (c *connection) Put(order protocol.Order) {
	c.do(func(conn *protocol.Conn) {
		if conn.Put(order) {
			c.traces.put(order)
		}
	})
}

func (c *connection) SetTemplates(t *fleetv1.TemplateSet) {
	c.do(func(conn *protocol.Conn) { conn.SetTemplates(t) })
}

func (c *connection) SetDoor(d *fleetv1.DoorConfig) {
	c.do(func(conn *protocol.Conn) { conn.SetDoor(d) })
}

func (c *connection) Close(reason error) {
	if reason == nil {
		reason = errors.New("closed by the hub")
	}
	c.end(reason)
}

// signal wakes the sender, once for any number of changes.
func (c *connection) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// do runs a step of the state machine that may produce messages.
func (c *connection) do(step func(*protocol.Conn)) {
	c.mu.Lock()
	step(c.conn)
	c.mu.Unlock()
	c.signal()
}

// send sends all messages. It blocks while the agent does not read, but no longer than
// Timeouts.Send, and nothing waits for it.
func (c *connection) send() {
	defer c.server.connections.tasks.Done()
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
			case <-c.ended.Done():
				return
			}
		}
		if err := c.sendOne(message); err != nil {
			c.end(fmt.Errorf("sending: %w", err))
			return
		}
		countOrders(message)
		if message.GetOrders() != nil && c.server.terms.Ordered != nil {
			c.server.terms.Ordered()
		}
		c.mu.Lock()
		c.traces.sent(message)
		c.mu.Unlock()
	}
}

func (c *connection) sendOne(message *fleetv1.ConnectResponse) error {
	timeout := c.server.options.Timeouts.Send
	blocked := time.AfterFunc(timeout, func() {
		c.end(fmt.Errorf("%w: it has not read a message for %s", protocol.ErrStalled, timeout))
	})
	defer blocked.Stop()
	return c.stream.Send(message)
}

// refuse passes the results of orders that cannot be sent to the Member.
func (c *connection) refuse(results []protocol.Result) {
	if len(results) == 0 {
		return
	}
	c.member.call(func(member Member) {
		countResults(results)
		member.Results(results)
	})
}

// checkConnections ends the connections whose agents do not keep up. It is one loop for all: a timer for
// each would wake the hub as often as all renewals do.
func (s *Server) checkConnections() {
	for _, c := range s.connections.all() {
		c.check(time.Now())
	}
}

// check ends the connection if the agent does not keep up.
func (c *connection) check(now time.Time) {
	defer c.recovered()
	c.mu.Lock()
	defer c.mu.Unlock() // also after a panic, which must not stop the checks of the others
	if err := c.conn.Tick(now); err != nil {
		c.end(err)
	}
	metricUnacknowledged.Observe(c.conn.UnacknowledgedAge().Seconds())
}

// ticksPerTimeout is how often the connections are checked within AckTimeout.
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
