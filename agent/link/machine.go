package link

import (
	"errors"
	"fmt"
	"slices"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

// State of a stream.
type State string

// The states, in their order.
const (
	// AwaitWelcome lasts until Welcome. Only Hello is sent, and only Welcome accepted.
	AwaitWelcome State = "AwaitWelcome"
	// Preparing lasts while the hub's term is stored. Nothing is sent or accepted.
	Preparing State = "Preparing"
	// SendingDigest lasts until the inventory's digest is sent. Nothing is accepted.
	SendingDigest State = "SendingDigest"
	// AwaitRequest lasts until the hub's answer to the digest, which alone is accepted.
	// Nothing is sent.
	AwaitRequest State = "AwaitRequest"
	// SendingInventory lasts while pages of the inventory are sent. Nothing is accepted.
	SendingInventory State = "SendingInventory"
	// Serving lasts until the end. Capacity, results, reports and the pages of a resync are
	// sent. Orders, templates and acknowledgements are accepted.
	Serving State = "Serving"
)

// Reasons to disconnect from a hub.
var (
	// ErrStaleHub is for a hub whose term is lower than one that was seen.
	ErrStaleHub = errors.New("the hub has a lower term than an earlier one")
	// ErrStalled is for a hub that has not acknowledged, answered or read for too long.
	ErrStalled = errors.New("the hub does not keep up")
	// ErrCapability is for a hub that requires a capability that this agent lacks.
	ErrCapability = errors.New("a required capability is missing")
	errProtocol   = errors.New("protocol violation")
)

// Effect is the action that a message requires: at most one field is set.
type Effect struct {
	// Welcome has the term to store before Machine.Begin is called.
	Welcome *fleetv1.Welcome
	// Orders for agent/assignment.
	Orders []*fleetv1.Order
	// Templates for agent/capacity.
	Templates *fleetv1.TemplateSet
	// Door is for the member's door.
	Door *fleetv1.DoorConfig
	// List requires the list of assignments, for Machine.Listed.
	List bool
}

// Machine is the state machine of one stream: messages in, effects and messages out. It is
// pure and not safe for concurrent use.
//
// Invariants: only Hello and the inventory are sent before the inventory's last page, and no
// capacity report that does not count it. The pages for one request are not interrupted.
type Machine struct {
	state State
	hello *fleetv1.Hello
	// helloSent is set once Next has returned it.
	helloSent bool
	inventory []Ref
	sync      inventorySync
	// ackTimeout is how long the oldest batch may be unacknowledged, from the hub's Welcome.
	ackTimeout time.Duration
	capacity   capacityReports
	// countedFrom is the first capacity report that counts the inventory.
	countedFrom  uint64
	reporter     *Reporter
	results      *Results
	orderBatches uint64
	orderAckDue  bool
}

// NewMachine returns the Machine of a new stream. Reporter and Results outlive it.
func NewMachine(hello *fleetv1.Hello, reporter *Reporter, results *Results) *Machine {
	return &Machine{state: AwaitWelcome, hello: hello, reporter: reporter, results: results}
}

// State returns the state of the stream.
func (m *Machine) State() State { return m.state }

// Receive handles a message of the hub. An error ends the stream.
func (m *Machine) Receive(message *fleetv1.ConnectResponse) (Effect, error) {
	if w := message.GetWelcome(); w != nil {
		return m.welcome(w)
	}
	if request := message.GetInventoryRequest(); request != nil {
		return m.request(request)
	}
	if m.state != Serving {
		return Effect{}, fmt.Errorf("%w: %T in state %s", errProtocol, message.GetMessage(), m.state)
	}
	switch msg := message.GetMessage().(type) {
	case *fleetv1.ConnectResponse_Orders:
		return m.orders(msg.Orders)
	case *fleetv1.ConnectResponse_ReportAck:
		m.reporter.Ack(msg.ReportAck.GetSequence())
	case *fleetv1.ConnectResponse_Templates:
		m.capacity.templates = true
		return Effect{Templates: msg.Templates}, nil
	case *fleetv1.ConnectResponse_Door:
		return Effect{Door: msg.Door}, nil
	}
	// Unknown messages are ignored.
	return Effect{}, nil
}

func (m *Machine) welcome(w *fleetv1.Welcome) (Effect, error) {
	if m.state != AwaitWelcome || !m.helloSent {
		return Effect{}, fmt.Errorf("%w: welcome in state %s", errProtocol, m.state)
	}
	if err := checkCompatible(m.hello, w); err != nil {
		return Effect{}, err
	}
	if highest := m.hello.GetHighestHubTerm(); w.GetHubTerm() < highest {
		return Effect{}, fmt.Errorf("%w: %d after %d", ErrStaleHub, w.GetHubTerm(), highest)
	}
	// The inventory is listed later, and covers all marks so far.
	m.state = Preparing
	m.capacity.begin(slices.Contains(w.GetCapabilities(), version.CapacityChanges), w.GetCapacitySequence())
	m.ackTimeout = max(w.GetAckTimeout().AsDuration(), minAckTimeout)
	m.reporter.Reset()
	m.results.Begin()
	return Effect{Welcome: w}, nil
}

// Begin sets the inventory, once the hub's term is stored, and the first capacity report
// that counts it: with the next report the hub forgets its reservations for the inventory.
func (m *Machine) Begin(inventory []Ref, countedFrom uint64) {
	if m.state != Preparing {
		return
	}
	m.state, m.inventory, m.countedFrom = SendingDigest, inventory, countedFrom
}

func (m *Machine) orders(batch *fleetv1.OrderBatch) (Effect, error) {
	// A gap means a lost batch.
	if batch.GetSequence() != m.orderBatches+1 {
		return Effect{}, fmt.Errorf("%w: order batch %d after %d", errProtocol, batch.GetSequence(), m.orderBatches)
	}
	m.orderBatches, m.orderAckDue = batch.GetSequence(), true
	return Effect{Orders: batch.GetItems()}, nil
}

// CapacityChanged records that there is a newer capacity report.
func (m *Machine) CapacityChanged() { m.capacity.due = true }

// Sources render messages when they are sent.
type Sources struct {
	Render   Render
	Capacity func() *fleetv1.CapacityReport
	// Hash returns an assignment's contribution to the digest, as of its listing, and false
	// if it was gone by then.
	Hash func(Ref) (uint64, bool)
}

// Next returns the message to send now, if any. Otherwise wait is the time until the next
// one, or zero if only another method causes one.
func (m *Machine) Next(now time.Time, sources Sources) (message *fleetv1.ConnectRequest, wait time.Duration) {
	switch m.state {
	case AwaitWelcome:
		return m.nextHello(), 0
	case SendingDigest:
		return m.nextDigest(now, sources), 0
	case SendingInventory:
		return m.nextPage(sources.Render), 0
	case Serving:
		return m.nextServing(now, sources)
	case Preparing, AwaitRequest:
	}
	return nil, 0
}

func (m *Machine) nextHello() *fleetv1.ConnectRequest {
	if m.helloSent {
		return nil
	}
	m.helloSent = true
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Hello{Hello: m.hello}}
}

func (m *Machine) nextPage(render Render) *fleetv1.ConnectRequest {
	items, taken := renderPage(m.inventory, render)
	m.inventory = m.inventory[taken:]
	last := len(m.inventory) == 0
	if last {
		m.inventory, m.sync.paging = nil, false
		m.serve()
	}
	page := &fleetv1.Inventory{Items: items, Last: last, ReportSequence: m.reporter.sequence}
	m.sync.record(items)
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Inventory{Inventory: page}}
}

// serve enters state Serving, once the inventory is sent.
func (m *Machine) serve() {
	if m.state != Serving {
		m.state, m.capacity.due = Serving, true
	}
}

func (m *Machine) nextServing(now time.Time, sources Sources) (*fleetv1.ConnectRequest, time.Duration) {
	if m.sync.paging {
		return m.nextPage(sources.Render), 0
	}
	if m.orderAckDue {
		m.orderAckDue = false
		return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_OrderAck{
			OrderAck: &fleetv1.OrderAck{Sequence: m.orderBatches}}}, 0
	}
	if report := m.capacity.next(now, sources.Capacity, m.countedFrom); report != nil {
		return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Capacity{Capacity: report}}, 0
	}
	if batch := m.results.Next(); batch != nil {
		return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Results{Results: batch}}, 0
	}
	batch, wait := m.reporter.Next(now, m.sync.withDeletions(sources.Render))
	if batch == nil {
		return nil, sooner(wait, m.capacity.wait(now))
	}
	m.sync.record(batch.Items)
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Reports{Reports: batch}}, 0
}
