package link

import (
	"errors"
	"fmt"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// protocolVersion is the only one that there is yet.
const protocolVersion = 1

// State of a stream.
type State string

// The states, in the order in which a stream goes through them.
const (
	// AwaitWelcome: Hello may be sent; Welcome is all that is accepted.
	AwaitWelcome State = "AwaitWelcome"
	// Preparing: the hub is a good one; its term is being made durable.
	// Nothing is sent, and nothing accepted.
	Preparing State = "Preparing"
	// SendingInventory: pages of the inventory are sent, nothing is accepted.
	SendingInventory State = "SendingInventory"
	// Serving: capacity, results and reports are sent; orders, templates and
	// acknowledgements accepted.
	Serving State = "Serving"
)

// Reasons to leave a hub.
var (
	// ErrStaleHub: its term is lower than one that has been seen.
	ErrStaleHub = errors.New("the hub is of an earlier term than one that was seen")
	errProtocol = errors.New("protocol violation")
)

// Effect is what a message asks of the outside: at most one field is set.
type Effect struct {
	// Welcome: make its term durable, then call Machine.Begin.
	Welcome *fleetv1.Welcome
	// Orders for agent/assignment.
	Orders []*fleetv1.Order
	// Templates for agent/capacity.
	Templates *fleetv1.TemplateSet
}

// Machine is the state machine of one stream: messages in, effects and
// messages out. It is pure and not safe for concurrent use.
//
// Invariant: nothing but Hello and the inventory is sent before the
// inventory's last page, and no capacity report that does not count it.
type Machine struct {
	state       State
	hello       *fleetv1.Hello
	highestTerm int64
	inventory   []Ref
	capacityDue bool
	// countedFrom is the first capacity report that counts the inventory.
	countedFrom  uint64
	reporter     *Reporter
	results      *Results
	orderBatches uint64
}

// NewMachine is a stream that has still to say Hello. Reporter and Results
// are shared with the streams before and after it.
func NewMachine(hello *fleetv1.Hello, reporter *Reporter, results *Results) *Machine {
	return &Machine{
		state: AwaitWelcome, hello: hello, highestTerm: hello.GetHighestHubTerm(),
		reporter: reporter, results: results,
	}
}

// State that the stream is in.
func (m *Machine) State() State { return m.state }

// Receive takes a message of the hub. An error ends the stream.
func (m *Machine) Receive(message *fleetv1.ConnectResponse) (Effect, error) {
	if w := message.GetWelcome(); w != nil {
		return m.welcome(w)
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
		return Effect{Templates: msg.Templates}, nil
	}
	// A message of a kind that this version does not know is left aside.
	return Effect{}, nil
}

func (m *Machine) welcome(w *fleetv1.Welcome) (Effect, error) {
	switch {
	case m.state != AwaitWelcome || m.hello != nil:
		return Effect{}, fmt.Errorf("%w: welcome in state %s", errProtocol, m.state)
	case w.GetProtocol() != protocolVersion:
		return Effect{}, fmt.Errorf("%w: the hub speaks version %d, this agent %d", errProtocol, w.GetProtocol(), protocolVersion)
	case w.GetHubTerm() < m.highestTerm:
		return Effect{}, fmt.Errorf("%w: %d after %d", ErrStaleHub, w.GetHubTerm(), m.highestTerm)
	}
	// What is marked from here on comes after the inventory, which is listed
	// later and covers all that was marked before.
	m.state = Preparing
	m.reporter.Reset()
	m.results.Begin()
	return Effect{Welcome: w}, nil
}

// Begin says what the member holds, once the hub's term is durable, and from
// which capacity report on all of it is counted: the hub gives up its
// reservations for what is in the inventory when it has the next report.
func (m *Machine) Begin(inventory []Ref, countedFrom uint64) {
	if m.state != Preparing {
		return
	}
	m.state, m.inventory, m.countedFrom = SendingInventory, inventory, countedFrom
}

func (m *Machine) orders(batch *fleetv1.OrderBatch) (Effect, error) {
	if batch.GetSequence() <= m.orderBatches {
		return Effect{}, fmt.Errorf("%w: order batch %d after %d", errProtocol, batch.GetSequence(), m.orderBatches)
	}
	m.orderBatches = batch.GetSequence()
	return Effect{Orders: batch.GetItems()}, nil
}

// CapacityChanged says that there is a newer capacity report.
func (m *Machine) CapacityChanged() { m.capacityDue = true }

// Sources render what is sent when it is sent.
type Sources struct {
	Render   Render
	Capacity func() *fleetv1.CapacityReport
}

// Next is the message to send now, if there is one. If there will be one by
// itself, wait says when; zero means: after the next call of another method.
func (m *Machine) Next(now time.Time, sources Sources) (message *fleetv1.ConnectRequest, wait time.Duration) {
	switch m.state {
	case AwaitWelcome:
		return m.nextHello(), 0
	case SendingInventory:
		return m.nextPage(sources.Render), 0
	case Serving:
		return m.nextServing(now, sources)
	case Preparing:
	}
	return nil, 0
}

func (m *Machine) nextHello() *fleetv1.ConnectRequest {
	hello := m.hello
	if hello == nil {
		return nil
	}
	m.hello = nil
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Hello{Hello: hello}}
}

func (m *Machine) nextPage(render Render) *fleetv1.ConnectRequest {
	items, taken := renderPage(m.inventory, render)
	m.inventory = m.inventory[taken:]
	last := len(m.inventory) == 0
	if last {
		m.state, m.inventory, m.capacityDue = Serving, nil, true
	}
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Inventory{
		Inventory: &fleetv1.Inventory{Items: items, Last: last}}}
}

func (m *Machine) nextServing(now time.Time, sources Sources) (*fleetv1.ConnectRequest, time.Duration) {
	if m.capacityDue {
		m.capacityDue = false
		if report := sources.Capacity(); report != nil && report.GetSequence() >= m.countedFrom {
			return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Capacity{Capacity: report}}, 0
		}
	}
	if batch := m.results.Next(); batch != nil {
		return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Results{Results: batch}}, 0
	}
	batch, wait := m.reporter.Next(now, sources.Render)
	if batch == nil {
		return nil, wait
	}
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Reports{Reports: batch}}, 0
}
