package protocol

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// MaxInventory is the most assignments that the hub accepts of one member. The Member
// bounds their bytes (Screen).
const MaxInventory = 200_000

// State of a connection.
type State string

// The states, in the order in which a connection goes through them.
const (
	// AwaitHello: only Hello is accepted, and nothing is sent.
	AwaitHello State = "AwaitHello"
	// Admitting: Hello was received, and the Directory decides. Nothing is accepted
	// and nothing sent until Admitted.
	Admitting State = "Admitting"
	// AwaitDigest: Welcome may be sent; only the digest of the inventory is accepted.
	// Orders are collected and not sent.
	AwaitDigest State = "AwaitDigest"
	// AwaitInventory: only pages of the requested buckets are accepted. Orders are
	// collected and not sent.
	AwaitInventory State = "AwaitInventory"
	// Serving: the inventory is in the member cache. Reports, results and capacity
	// are accepted, and pages during a resync; orders, acknowledgments and templates
	// are sent.
	Serving State = "Serving"
	// Closed: nothing is accepted, sent or kept.
	Closed State = "Closed"
)

// Effect is what the caller must do about a message. Besides Sequence and Malformed, at
// most one field is set.
type Effect struct {
	// Admit: have the Directory admit the agent, then call Admitted.
	Admit *fleetv1.Hello
	// Digest of the member's inventory: request the buckets in which the Member differs.
	Digest *convert.Digest
	// Part of the inventory that was requested: pass it to the Member, then call Applied.
	Part *Part
	// Changes: pass them to the Member, then call Applied.
	Changes  []Report
	Sequence uint64
	// Results for the Member.
	Results []Result
	// Capacity for the Member.
	Capacity *fleetv1.CapacityReport
	// Malformed are the errors of the items that were skipped.
	Malformed []error
}

// Conn is the state machine of one connection: messages in, effects and messages out. It
// is pure and not safe for concurrent use.
//
// Invariants: the sequence of report batches grows by one within a connection; only
// what the Member has applied is acknowledged; orders are sent only in Serving, while
// fewer batches than the window are unacknowledged.
type Conn struct {
	state     State
	outbox    *Outbox
	hubTerm   int64
	tuning    Tuning
	protocol  int32
	welcome   *fleetv1.Welcome
	opening   opening
	agreement agreement
	templates *fleetv1.TemplateSet
	door      *fleetv1.DoorConfig
	// received is the highest sequence of reports, acked the highest one applied.
	// ackDue: it is not acknowledged yet.
	received, acked uint64
	ackDue          bool
	orderSequence   uint64
	// inFlight are the unacknowledged batches of orders, the oldest first.
	inFlight []sentBatch
	// now is the time of the last Tick.
	now time.Time
}

// NewConn returns a connection in AwaitHello. The time is of a monotonic clock.
func NewConn(hubTerm int64, tuning Tuning, now time.Time) *Conn {
	tuning.SetDefaults()
	return &Conn{state: AwaitHello, outbox: NewOutbox(), hubTerm: hubTerm, tuning: tuning, now: now}
}

// HubTerm returns the term that the connection was opened under.
func (c *Conn) HubTerm() int64 { return c.hubTerm }

// State returns the state of the connection.
func (c *Conn) State() State { return c.state }

// Outbox returns the outbox of the connection.
func (c *Conn) Outbox() *Outbox { return c.outbox }

// Receive handles a message of the agent. An error ends the connection.
func (c *Conn) Receive(m *fleetv1.ConnectRequest) (Effect, error) {
	switch msg := m.GetMessage().(type) {
	case *fleetv1.ConnectRequest_Hello:
		return c.hello(msg.Hello)
	case *fleetv1.ConnectRequest_InventoryDigest:
		return c.digest(msg.InventoryDigest)
	case *fleetv1.ConnectRequest_Inventory:
		return c.partPage(msg.Inventory)
	case *fleetv1.ConnectRequest_Reports:
		return c.reports(msg.Reports)
	case *fleetv1.ConnectRequest_Results:
		return c.results(msg.Results)
	case *fleetv1.ConnectRequest_Capacity:
		if err := c.expect(Serving, "capacity"); err != nil {
			return Effect{}, err
		}
		return Effect{Capacity: msg.Capacity, Malformed: boundCapacity(msg.Capacity)}, nil
	case *fleetv1.ConnectRequest_OrderAck:
		return Effect{}, c.orderAck(msg.OrderAck)
	case nil:
		// A message of a kind that this version does not know.
		if c.state == AwaitHello || c.state == Closed {
			return Effect{}, c.expect(Serving, "unknown message")
		}
		return Effect{}, nil
	}
	return Effect{}, fmt.Errorf("%w: unhandled message %T", ErrViolation, m.GetMessage())
}

func (c *Conn) expect(state State, what string) error {
	if c.state != state {
		return fmt.Errorf("%w: %s in state %s", ErrViolation, what, c.state)
	}
	return nil
}

func (c *Conn) hello(h *fleetv1.Hello) (Effect, error) {
	if err := c.expect(AwaitHello, "hello"); err != nil {
		return Effect{}, err
	}
	if err := boundHello(h); err != nil {
		return Effect{}, err
	}
	protocol, err := c.tuning.negotiate(h)
	switch {
	case err != nil:
		return Effect{}, err
	case h.GetInstance() == "":
		return Effect{}, fmt.Errorf("%w: hello without instance", ErrViolation)
	case h.GetHighestHubTerm() > c.hubTerm:
		return Effect{}, fmt.Errorf("the agent has seen a hub of term %d, this one has %d: %w",
			h.GetHighestHubTerm(), c.hubTerm, ErrStaleHub)
	}
	c.state, c.protocol = Admitting, protocol
	return Effect{Admit: h}, nil
}

// Admitted records that the Directory has admitted the agent, which is sent the proof
// of the hub's term, and the number of its last capacity report that the hub has.
func (c *Conn) Admitted(renewInterval *durationpb.Duration, termProof string, capacity uint64) {
	if c.state != Admitting {
		return
	}
	c.state = AwaitDigest
	c.welcome = &fleetv1.Welcome{
		Protocol: c.protocol, HubTerm: c.hubTerm, HubTermProof: termProof, RenewInterval: renewInterval,
		Capabilities: c.tuning.Capabilities, RequiredCapabilities: c.tuning.RequiredCapabilities,
		AckTimeout: durationpb.New(c.tuning.AckTimeout), CapacitySequence: capacity,
	}
}

// Applied records that the Member has applied an effect, and the digest of the reported
// set since. Orders are sent once the inventory is applied; reports are acknowledged.
func (c *Conn) Applied(effect Effect, reported uint64) {
	if effect.Part != nil {
		// A request for no bucket is still to be sent.
		c.opening = opening{due: c.opening.due}
		if c.state == AwaitInventory {
			c.state = Serving
		}
	}
	if c.state != Serving {
		return
	}
	if effect.Sequence > c.acked {
		c.acked, c.ackDue = effect.Sequence, true
	}
	c.agreement.remember(c.acked, reported)
}

func (c *Conn) reports(batch *fleetv1.ReportBatch) (Effect, error) {
	if err := c.expect(Serving, "reports"); err != nil {
		return Effect{}, err
	}
	if batch.GetSequence() != c.received+1 {
		return Effect{}, fmt.Errorf("%w: report batch %d after %d", ErrViolation, batch.GetSequence(), c.received)
	}
	c.received = batch.GetSequence()
	items, malformed := readReports(batch.GetItems())
	return Effect{Changes: items, Sequence: c.received, Malformed: malformed}, nil
}

func (c *Conn) results(batch *fleetv1.ResultBatch) (Effect, error) {
	if err := c.expect(Serving, "results"); err != nil {
		return Effect{}, err
	}
	results, malformed := readResults(batch.GetItems())
	for _, r := range results {
		c.outbox.Resolve(r)
	}
	return Effect{Results: results, Malformed: malformed}, nil
}

// Put adds an order in any state but Closed.
func (c *Conn) Put(order Order) bool { return c.state != Closed && c.outbox.Put(order) }

// SetTemplates replaces the templates to send.
func (c *Conn) SetTemplates(t *fleetv1.TemplateSet) {
	if c.state != Closed {
		c.templates = t
	}
}

// SetDoor replaces what the member's door needs.
func (c *Conn) SetDoor(d *fleetv1.DoorConfig) {
	if c.state != Closed {
		c.door = d
	}
}

// Next returns the message to send now, nil if there is none.
func (c *Conn) Next() *fleetv1.ConnectResponse {
	if w := c.welcome; w != nil {
		c.welcome = nil
		return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Welcome{Welcome: w}}
	}
	if request := c.opening.next(c.now); request != nil {
		return request
	}
	if c.state != Serving {
		return nil
	}
	if c.ackDue {
		c.ackDue = false
		return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_ReportAck{
			ReportAck: &fleetv1.ReportAck{Sequence: c.acked}}}
	}
	if t := c.templates; t != nil {
		c.templates = nil
		return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Templates{Templates: t}}
	}
	if d := c.door; d != nil {
		c.door = nil
		return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Door{Door: d}}
	}
	if len(c.inFlight) >= orderWindow {
		return nil
	}
	if items := c.outbox.Next(c.now); len(items) > 0 {
		c.orderSequence++
		c.inFlight = append(c.inFlight, sentBatch{c.orderSequence, c.now})
		return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Orders{
			Orders: &fleetv1.OrderBatch{Sequence: c.orderSequence, Items: items}}}
	}
	return nil
}

// Close ends the connection and drops all that is unsent.
func (c *Conn) Close() {
	*c = Conn{state: Closed, outbox: NewOutbox(), hubTerm: c.hubTerm, tuning: c.tuning}
}
