package protocol

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// world is a hub, a member and the messages on the wire between them.
type world struct {
	now    time.Time
	hub    *hub
	member *member

	toHub   []*fleetv1.ConnectRequest
	toAgent []*fleetv1.ConnectResponse
	// connected is true while there is a stream. Its ends may detect its loss late.
	connected bool
	trace     []string
	// old is the previous stream, of which messages may still arrive.
	old stream
	// bytes on the wire, by direction.
	bytesToHub, bytesToAgent int
}

// stream is the messages that were on the wire, and the hub's end of it.
type stream struct {
	conn    *protocol.Conn
	toHub   []*fleetv1.ConnectRequest
	toAgent []*fleetv1.ConnectResponse
}

func newWorld() *world {
	w := &world{hub: newHub(), member: newMember()}
	w.tick(time.Hour)
	return w
}

// tick advances time.
func (w *world) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.member.now = w.now
	if w.hub.conn != nil {
		if err := w.hub.conn.Tick(w.now); err != nil {
			w.log("hub    ends the stream: %v", err)
			w.drop()
		}
	}
	if w.member.machine != nil {
		if err := w.member.machine.Tick(w.now); err != nil {
			w.log("agent  ends the stream: %v", err)
			w.drop()
		}
	}
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// connect begins a new stream.
func (w *world) connect() {
	w.drop()
	w.connected = true
	w.hub.conn = protocol.NewConn(w.hub.term, w.hub.tuning, w.now)
	w.member.begin()
	w.tick(0)
}

// drop loses the stream and all messages on it.
func (w *world) drop() {
	if w.hub.conn != nil {
		w.old = stream{conn: w.hub.conn, toHub: w.toHub, toAgent: w.toAgent}
	}
	w.connected = false
	w.toHub, w.toAgent = nil, nil
	w.hub.conn = nil
	w.member.machine = nil
}

// agentSends puts one message on the wire, and reports whether there was one to send.
func (w *world) agentSends() bool {
	if w.member.machine == nil {
		return false
	}
	message, _ := w.member.machine.Next(w.now, w.member.sources())
	if message == nil {
		return false
	}
	w.bytesToHub += proto.Size(message)
	w.log("agent  %s", describeRequest(message))
	w.toHub = append(w.toHub, message)
	return true
}

func (w *world) hubSends() bool {
	if w.hub.conn == nil {
		return false
	}
	message := w.hub.conn.Next()
	if message == nil {
		return false
	}
	if welcome := message.GetWelcome(); welcome != nil && w.hub.protocol > 0 {
		welcome.Protocol = w.hub.protocol
	}
	w.bytesToAgent += proto.Size(message)
	w.log("hub    %s", describeResponse(message))
	w.toAgent = append(w.toAgent, message)
	return true
}

func (w *world) hubReceives() bool {
	if len(w.toHub) == 0 {
		return false
	}
	message := w.toHub[0]
	w.toHub = w.toHub[1:]
	effect, err := w.hub.conn.Receive(message)
	defer w.compare()
	for _, malformed := range effect.Malformed {
		w.log("hub    omits: %v", malformed)
	}
	if err != nil {
		w.log("hub    ends the stream: %v", err)
		w.drop()
		return true
	}
	w.hub.apply(w.hub.conn, effect)
	return true
}

// lateArrives delivers a message of the last stream to that stream's end on the hub, as
// if the hub had not yet detected the loss.
func (w *world) lateArrives() bool {
	if len(w.old.toHub) == 0 {
		return false
	}
	message := w.old.toHub[0]
	w.old.toHub = w.old.toHub[1:]
	if effect, err := w.old.conn.Receive(message); err == nil {
		w.hub.apply(w.old.conn, effect)
	}
	return true
}

// renew delivers a renewal of the lease.
func (w *world) renew() {
	state := w.member.syncState()
	if state == nil || w.hub.conn == nil {
		return
	}
	w.hub.conn.Sync(state)
	w.compare()
}

func (w *world) compare() {
	if w.hub.conn == nil {
		return
	}
	verdict, ok := w.hub.conn.CompareDigests(w.hub.sums())
	if !ok {
		return
	}
	for _, set := range verdict.Mismatched {
		w.log("hub    disagrees on what is %s", set)
	}
	if verdict.Agreement != "" && verdict.Agreement != w.hub.agreement {
		w.hub.agreement = verdict.Agreement
		w.log("hub    %s", verdict.Agreement)
	}
	if verdict.Resync != "" {
		w.hub.resyncs[verdict.Resync]++
	}
}

func (w *world) agentReceives() bool {
	if len(w.toAgent) == 0 {
		return false
	}
	message := w.toAgent[0]
	w.toAgent = w.toAgent[1:]
	effect, err := w.member.machine.Receive(message)
	if err != nil {
		w.log("agent  ends the stream: %v", err)
		w.drop()
		return true
	}
	w.member.apply(effect)
	return true
}

// exchange delivers until there is nothing left to send.
func (w *world) exchange() {
	for progress := true; progress; {
		progress = false
		for _, step := range []func() bool{w.agentSends, w.hubReceives, w.hubSends, w.agentReceives} {
			for step() {
				progress = true
			}
		}
	}
}
