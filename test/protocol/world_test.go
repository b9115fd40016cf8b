package protocol

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	hublink "github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// world is a hub, a member and what is on the wire between them.
type world struct {
	now    time.Time
	hub    *hub
	member *member

	toHub   []*fleetv1.ConnectRequest
	toAgent []*fleetv1.ConnectResponse
	// connected: there is a stream. Its ends may learn late that there isn't.
	connected bool
	trace     []string
}

func newWorld() *world {
	w := &world{hub: newHub(), member: newMember()}
	w.tick(time.Hour)
	return w
}

// tick lets time pass.
func (w *world) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.member.now = w.now
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// connect begins a new stream.
func (w *world) connect() {
	w.drop()
	w.connected = true
	w.hub.conn = hublink.NewConn(w.hub.term)
	w.member.begin()
}

// drop loses the stream and all that is on it.
func (w *world) drop() {
	w.connected = false
	w.toHub, w.toAgent = nil, nil
	w.hub.conn = nil
	w.member.machine = nil
}

// agentSends puts one message on the wire; false if there is none to send.
func (w *world) agentSends() bool {
	if w.member.machine == nil {
		return false
	}
	message, _ := w.member.machine.Next(w.now, agentlink.Sources{Render: w.member.render, Capacity: w.member.capacityReport})
	if message == nil {
		return false
	}
	w.say("agent  %s", describeRequest(message))
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
	w.say("hub    %s", describeResponse(message))
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
	for _, malformed := range effect.Malformed {
		w.say("hub    leaves out: %v", malformed)
	}
	if err != nil {
		w.say("hub    ends the stream: %v", err)
		w.drop()
		return true
	}
	w.hub.apply(effect)
	return true
}

func (w *world) agentReceives() bool {
	if len(w.toAgent) == 0 {
		return false
	}
	message := w.toAgent[0]
	w.toAgent = w.toAgent[1:]
	effect, err := w.member.machine.Receive(message)
	if err != nil {
		w.say("agent  ends the stream: %v", err)
		w.drop()
		return true
	}
	w.member.apply(effect)
	return true
}

// exchange delivers until nothing is left to say now.
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

// hub is the hub as the link sees it: what it wants is durable, what it knows
// of the member is not.
type hub struct {
	term int64
	conn *hublink.Conn
	// picture of the member, by session.
	picture map[string]item
	// wanted is the epoch and spec that each session is placed with, releasing
	// the epoch up to which it must stop. Both outlive the process.
	wanted    map[string]item
	releasing map[string]int64
	epochs    map[string]int64
	// resync has the hub put, after an inventory, what the picture lacks.
	resync bool
}

type item struct {
	epoch int64
	hash  string
	state string
}

func newHub() *hub {
	return &hub{term: 1, picture: map[string]item{}, wanted: map[string]item{}, releasing: map[string]int64{}, epochs: map[string]int64{}}
}

func (h *hub) apply(e hublink.Effect) {
	switch {
	case e.Admit != nil:
		h.conn.Admitted(durationpb.New(5 * time.Second))
	case e.Inventory != nil:
		h.picture = map[string]item{}
		for _, a := range *e.Inventory {
			h.picture[string(a.Spec.Session.UID)] = itemOf(a)
		}
		h.conn.InventoryApplied()
		if h.resync {
			h.putAll()
		}
	case e.Sequence != 0:
		for _, a := range e.Reports {
			h.picture[string(a.Spec.Session.UID)] = itemOf(a)
		}
		h.conn.ReportsApplied(e.Sequence)
	}
	for _, r := range e.Results {
		h.result(r)
	}
}

// putAll is what the reconcilers do after a reconnect: the difference alone.
func (h *hub) putAll() {
	for _, uid := range sorted(h.releasing) {
		h.put(withdrawal(uid, h.releasing[uid]))
	}
	for _, uid := range sorted(h.wanted) {
		want, has := h.wanted[uid], h.picture[uid]
		if has.epoch != want.epoch || has.hash != want.hash {
			h.put(assignment(uid, want.epoch, want.hash))
		}
	}
}

func (h *hub) put(order hublink.Order) {
	if h.conn != nil {
		h.conn.Put(order)
	}
}

// result follows hub/fleet: Stopped frees, and what was placed and is stopped
// or refused is placed anew with the next epoch.
func (h *hub) result(r hublink.Result) {
	uid := string(r.SessionUID)
	want, placed := h.wanted[uid]
	switch r.Code {
	case hublink.Stored:
		if has := h.picture[uid]; r.SpecHash != "" && has.epoch <= r.Epoch {
			if has.epoch < r.Epoch {
				has.state = "Active"
			}
			h.picture[uid] = item{epoch: r.Epoch, hash: r.SpecHash, state: has.state}
		}
		return
	case hublink.Stopped:
		if h.picture[uid].epoch <= r.Epoch {
			delete(h.picture, uid)
		}
		if h.releasing[uid] <= r.Epoch {
			delete(h.releasing, uid)
		}
	case hublink.Refused:
	}
	if h.resync && placed && want.epoch <= r.Epoch {
		h.place(uid, want.hash)
	}
}

// place gives a session the next epoch.
func (h *hub) place(uid, hash string) {
	h.epochs[uid]++
	h.wanted[uid] = item{epoch: h.epochs[uid], hash: hash}
	h.put(assignment(uid, h.epochs[uid], hash))
}

// release gives a placement up.
func (h *hub) release(uid string) {
	want, ok := h.wanted[uid]
	if !ok {
		return
	}
	delete(h.wanted, uid)
	h.releasing[uid] = max(h.releasing[uid], want.epoch)
	h.put(withdrawal(uid, want.epoch))
}
