package link

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"google.golang.org/protobuf/types/known/durationpb"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// receive is the only one that calls the Member.
func (c *connection) receive() {
	defer c.server.tasks.Done()
	var member Member
	defer func() { c.farewell(member) }()
	defer c.recovered()
	for c.open() {
		message, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			c.end(nil)
			return
		}
		if err != nil {
			c.end(fmt.Errorf("receiving: %w", err))
			return
		}
		if !c.open() {
			// What still arrives after the end is stale.
			return
		}
		if err := c.handle(message, &member); err != nil {
			c.end(err)
			return
		}
	}
}

func (c *connection) open() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// handle feeds a message to the state machine and carries out its effect.
func (c *connection) handle(message *fleetv1.ConnectRequest, member *Member) error {
	c.mu.Lock()
	effect, err := c.conn.Receive(message)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	for _, malformed := range effect.Malformed {
		metricMalformed.Inc()
		c.log.Error(malformed, "left out an item that could not be read")
	}
	if effect.Admit != nil {
		*member, err = c.admit(*effect.Admit)
		return err
	}
	if page := message.GetInventory(); page != nil {
		c.timer.Reset(c.server.options.InventoryTimeout)
	}
	c.apply(effect, *member)
	return nil
}

// admit asks the Directory; the timer, until now of Hello, is of the
// inventory from here on.
func (c *connection) admit(hello Hello) (Member, error) {
	member, err := c.server.directory.Open(c.stream.Context(), c.uid, hello, c)
	if err != nil {
		metricDenied.WithLabelValues("Connect", codeOf(err).String()).Inc()
		return nil, err
	}
	metricConnections.Inc()
	// The Directory, which knows names, logs these for people.
	c.log.V(1).Info("agent connected", "instance", hello.Instance, "agentVersion", hello.AgentVersion, "agentTerm", hello.AgentTerm)
	c.timer.Reset(c.server.options.InventoryTimeout)
	c.do(func(conn *Conn) { conn.Admitted(durationpb.New(c.server.options.RenewInterval)) })
	return member, nil
}

func (c *connection) apply(effect Effect, member Member) {
	switch {
	case effect.Inventory != nil:
		c.timer.Stop()
		metricReports.Add(float64(len(*effect.Inventory)))
		member.Inventory(*effect.Inventory)
		c.log.V(1).Info("inventory received", "assignments", len(*effect.Inventory))
		c.do(func(conn *Conn) { conn.InventoryApplied() })
	case effect.Sequence != 0:
		metricReports.Add(float64(len(effect.Reports)))
		member.Reports(effect.Reports)
		c.do(func(conn *Conn) { conn.ReportsApplied(effect.Sequence) })
	case len(effect.Results) > 0:
		countResults(effect.Results)
		member.Results(effect.Results)
	case effect.Capacity != nil:
		member.Capacity(effect.Capacity)
	}
}

// recovered ends a connection that met a bug, and no other.
func (c *connection) recovered() {
	if p := recover(); p != nil {
		c.log.Error(fmt.Errorf("panic: %v", p), "connection failed", "stack", string(debug.Stack()))
		c.end(errPanic)
	}
}

// farewell is the last that the Member hears.
func (c *connection) farewell(member Member) {
	c.mu.Lock()
	c.conn.Close()
	c.mu.Unlock()
	if member == nil {
		c.log.Info("agent not let in", "reason", errorText(c.reason))
		return
	}
	metricConnections.Dec()
	c.log.V(1).Info("agent disconnected", "reason", errorText(c.reason))
	member.Closed(c.reason)
}

func errorText(err error) string {
	if err == nil {
		return "the agent said goodbye"
	}
	return err.Error()
}
