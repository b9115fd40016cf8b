package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// receive receives messages until the connection ends.
func (c *connection) receive() {
	defer c.server.connections.tasks.Done()
	defer c.closeMember()
	defer c.recovered()
	for c.ended.Err() == nil {
		message, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			c.end(errClosedByAgent)
			return
		}
		if err != nil {
			c.end(fmt.Errorf("receiving: %w", err))
			return
		}
		if c.ended.Err() != nil {
			return // What still arrives is stale.
		}
		if err := c.handle(message); err != nil {
			c.end(err)
			return
		}
	}
}

// handle passes a message to the state machine and executes its effect.
func (c *connection) handle(message *fleetv1.ConnectRequest) error {
	page, member := message.GetInventory(), c.member.get()
	if page != nil && member != nil {
		if err := member.Screen(page); err != nil {
			return err
		}
	}
	c.mu.Lock()
	effect, err := c.conn.Receive(message)
	c.traces.acknowledged(effect.Results)
	c.mu.Unlock()
	if errors.Is(err, protocol.ErrStaleHub) {
		err = c.laterHub(message.GetHello(), err)
	}
	if errors.Is(err, protocol.ErrVersion) || errors.Is(err, protocol.ErrCapability) {
		countDenied("Connect", err)
		c.server.directory.Refused(c.uid, err)
	}
	if err != nil {
		return err
	}
	metricMalformed.Add(float64(len(effect.Malformed)))
	for _, malformed := range atMost(effect.Malformed, maxMalformed) {
		c.log.Error(malformed, "malformed item skipped")
	}
	if effect.Admit != nil {
		return c.admit(effect.Admit)
	}
	if page != nil {
		c.timer.Reset(c.server.options.Timeouts.Inventory)
	}
	c.member.call(func(member Member) { c.apply(effect, member) })
	// An acknowledgment may have opened the window.
	c.signal()
	c.compareDigests()
	return nil
}

// admit has the Directory admit the agent. From here on the timer is the inventory's.
func (c *connection) admit(hello *fleetv1.Hello) error {
	c.mu.Lock()
	ours := c.conn.HubTerm()
	c.mu.Unlock()
	if c.server.terms.ofAnotherHub(c.uid, hello.HighestHubTerm, ours, hello.HighestHubTermProof) {
		err := fmt.Errorf("the agent has seen another hub of term %d: %w", hello.HighestHubTerm, protocol.ErrStaleHub)
		return c.laterHub(hello, err)
	}
	member, err := c.server.directory.Open(c.stream.Context(), c.uid, hello, c)
	if err != nil {
		countDenied("Connect", err)
		return err
	}
	c.instance = hello.Instance
	c.member.member.Store(&member)
	c.server.connections.admit(c)
	metricConnections.Inc()
	// The Directory logs this with the member's name.
	c.log.V(1).Info("agent connected", "instance", hello.Instance, "agentVersion", hello.AgentVersion, "agentTerm", hello.AgentTerm)
	c.timer.Reset(c.server.options.Timeouts.Inventory)
	proof := c.server.terms.recordSent(c.uid, ours)
	// Without the connection's lock, which the Directory acquires under its own.
	capacity := member.CapacitySequence()
	c.do(func(conn *protocol.Conn) {
		conn.Admitted(durationpb.New(c.server.options.RenewInterval()), proof, capacity)
	})
	return nil
}

// laterHub returns the refusal of an agent that has seen a later hub.
func (c *connection) laterHub(hello *fleetv1.Hello, refusal error) error {
	err := c.server.terms.laterHub(c.stream.Context(), c.uid, hello.GetHighestHubTerm(), hello.GetHighestHubTermProof(), refusal)
	countDenied("Connect", err)
	if errors.Is(err, ErrUnprovenTerm) {
		c.server.directory.Refused(c.uid, err)
	}
	return err
}

func (c *connection) apply(effect protocol.Effect, member Member) {
	switch {
	case effect.Digest != nil:
		c.requestInventory(member, effect.Digest)
	case effect.Part != nil, effect.Sequence != 0:
		c.reports(member, effect)
	case len(effect.Results) > 0:
		countResults(effect.Results)
		member.Results(effect.Results)
	case effect.Capacity != nil:
		member.Capacity(effect.Capacity)
	}
}

// requestInventory requests the buckets that differ from the hub's copy. If none do,
// the inventory is complete.
func (c *connection) requestInventory(member Member, theirs *convert.Digest) {
	buckets := member.Differing(theirs)
	c.do(func(conn *protocol.Conn) { conn.Request(buckets) })
	c.log.V(1).Info("inventory compared", "assignments", theirs.Len(), "differingBuckets", buckets.Len())
	if buckets.Len() == 0 {
		c.reports(member, protocol.Effect{Part: &protocol.Part{}})
		return
	}
	c.timer.Reset(c.server.options.Timeouts.Inventory)
}

// reports passes an inventory, or a batch of reports, to the Member.
func (c *connection) reports(member Member, effect protocol.Effect) {
	metricReports.Add(float64(len(effect.Changes)))
	if part := effect.Part; part != nil {
		c.timer.Stop()
		metricReports.Add(float64(len(part.Items)))
		member.Part(part.Buckets, part.Items)
	} else if effect.Changes != nil {
		member.Changes(effect.Changes)
	}
	reported := member.Sums().Reported
	c.do(func(conn *protocol.Conn) { conn.Applied(effect, reported) })
}

// sync receives the digests of a renewal. It never waits for the Member.
func (c *connection) sync(state *fleetv1.SyncState) {
	c.mu.Lock()
	c.conn.Sync(state)
	c.mu.Unlock()
	c.compareDigests()
}

// compareDigests compares the digests of the last renewal, once they can be compared.
func (c *connection) compareDigests() {
	member := c.member.get()
	if member == nil {
		return
	}
	sums := member.Sums()
	c.mu.Lock()
	verdict, ok := c.conn.CompareDigests(sums)
	c.mu.Unlock()
	if !ok {
		return
	}
	for _, set := range verdict.Mismatched {
		metricMismatches.WithLabelValues(set).Inc()
	}
	if verdict.Resync != "" {
		metricResyncs.WithLabelValues(verdict.Resync).Inc()
		c.log.Info("digests of the hub and the agent differ: requesting the agent's full inventory", "set", verdict.Resync)
		c.signal()
	}
	if verdict.Agreement != "" {
		member.Agreed(verdict.Agreement)
	}
}

// recovered ends a connection after a panic.
func (c *connection) recovered() {
	if p := recover(); p != nil {
		metricPanics.WithLabelValues("Connect").Inc()
		c.log.Error(fmt.Errorf("panic: %v", p), "connection failed", "stack", string(debug.Stack()))
		c.end(errPanic)
	}
}

// closeMember closes the state machine and the Member.
func (c *connection) closeMember() {
	c.mu.Lock()
	c.conn.Close()
	c.traces.close()
	c.mu.Unlock()
	reason := context.Cause(c.ended)
	if c.member.get() == nil {
		c.log.Info("agent not admitted", "reason", reason.Error())
		return
	}
	metricConnections.Dec()
	c.log.V(1).Info("agent disconnected", "reason", reason.Error())
	if errors.Is(reason, errClosedByAgent) {
		reason = nil
	}
	c.member.close(reason)
}

// maxMalformed is how many malformed items of a message are logged.
const maxMalformed = 8

func atMost(errs []error, most int) []error {
	if len(errs) <= most {
		return errs
	}
	return append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
}
