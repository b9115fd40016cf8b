package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

const sessions = 4

// TestBothSidesConvergeOnceTheNetworkIsRestored runs actions of the hub and the member,
// restarts, changes of term, delays and losses at random and in any
// order, one message at a time, and then restores the network. A stream may be
// cut anywhere, and messages on it may still arrive at its ends, but within it
// none is lost, duplicated or reordered: gRPC guarantees that.
//
// It checks G2, G3, G4, G6 and G8 of docs/design.md, section 9, and that the digests
// never detect a false mismatch. G7 concerns the I/O around the
// machines: see TestAStalledAgentDelaysNoOther.
func TestBothSidesConvergeOnceTheNetworkIsRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChaos(t)
		t.Repeat(c.actions())
		if n := c.hub.resyncs["reported"]; n > 0 {
			t.Fatalf("%d resyncs although all that was reported has arrived", n)
		}
		c.converge(t)
	})
}

// TestBothSidesConvergeWhateverTheTransportDoes also loses, duplicates and
// reorders messages within a stream, delivers messages of an old stream on the new
// one, and loses the hub's state: faults that neither a transport nor a hub without bugs has.
// Such a message is refused, which ends the stream, or causes no difference that the
// digests on the renewals do not detect (G8). It causes no store of an old epoch,
// or of one that was never assigned (G3).
func TestBothSidesConvergeWhateverTheTransportDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newChaos(t)
		c.broken = true
		actions := c.actions()
		for name, action := range c.damage() {
			actions[name] = action
		}
		t.Repeat(actions)
		c.converge(t)
	})
}

type chaos struct {
	*world
	// broken is true if the transport is.
	broken bool
	// highest is the highest epoch that the member ever held, by session, and shown
	// the one that the hub's cache showed since this hub's process started.
	highest, shown map[string]int64
	// released is the epoch up to which each session was ever released; byHand are
	// those that were deleted by hand in the member.
	released map[string]int64
	byHand   map[string]bool
	term     int64
}

// newChaos decides at random whether the agent also supports a synthetic next version.
func newChaos(t *rapid.T) *chaos {
	c := &chaos{
		world: newWorld(), highest: map[string]int64{}, shown: map[string]int64{},
		released: map[string]int64{}, byHand: map[string]bool{},
	}
	c.hub.resync = true
	c.member.tuning.maxProtocol = rapid.Int32Range(1, 2).Draw(t, "agent")
	return c
}

func (c *chaos) actions() map[string]func(*rapid.T) {
	session := rapid.IntRange(0, sessions-1)
	any := func(t *rapid.T) string { return fmt.Sprintf("s%d", session.Draw(t, "session")) }
	step := func(f func() bool) func(*rapid.T) {
		return func(t *rapid.T) {
			if !f() {
				t.Skip("nothing to do")
			}
		}
	}
	return map[string]func(*rapid.T){
		"":               c.check,
		"agent sends":    step(c.agentSends),
		"hub receives":   step(c.hubReceives),
		"hub sends":      step(c.hubSends),
		"agent receives": step(c.agentReceives),
		"member works":   step(func() bool { return c.member.work() }),
		"exchange":       func(*rapid.T) { c.exchange() },
		"time passes":    func(t *rapid.T) { c.tick(time.Duration(rapid.IntRange(1, 60).Draw(t, "ms")) * time.Millisecond) },
		"much time":      func(t *rapid.T) { c.tick(time.Duration(rapid.IntRange(1, 12).Draw(t, "s")) * time.Second) },
		"agent renews":   func(*rapid.T) { c.renew() },
		"late arrives":   step(c.lateArrivesHarmlessly),
		"hub places": func(t *rapid.T) {
			if uid := any(t); c.hub.wanted[uid].epoch == 0 {
				c.hub.place(uid, "h1")
			}
		},
		"hub revises": func(t *rapid.T) {
			uid := any(t)
			if want, ok := c.hub.wanted[uid]; ok {
				want.hash += "'"
				c.hub.wanted[uid] = want
				c.hub.put(assignment(uid, want.epoch, want.hash))
			}
		},
		"hub releases": func(t *rapid.T) {
			uid := any(t)
			c.released[uid] = max(c.released[uid], c.hub.wanted[uid].epoch)
			c.hub.release(uid)
		},
		"status changes": func(t *rapid.T) { c.changeStatus(any(t), rapid.StringMatching("Active/[a-z]").Draw(t, "status")) },
		"pods stop": func(t *rapid.T) {
			if uid := any(t); c.member.held[uid] != nil && c.member.held[uid].state == "Stopping" {
				c.member.stopped(uid)
			}
		},
		"deleted by hand": func(t *rapid.T) {
			uid := any(t)
			c.byHand[uid] = c.byHand[uid] || c.member.held[uid] != nil
			c.member.changes(uid, "Stopping")
		},
		"agent restarts": func(*rapid.T) { c.drop(); c.member.restart(); c.member.now = c.now },
		"hub restarts":   func(*rapid.T) { c.drop(); c.hub.term++; c.hub.forgetAll(); clear(c.shown) },
		"stream is lost": func(*rapid.T) { c.drop() },
		"agent connects": func(*rapid.T) { c.connect() },
	}
}

// damage returns the faults that neither a transport nor a hub without bugs has.
func (c *chaos) damage() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"a message is lost": func(t *rapid.T) {
			if rapid.Bool().Draw(t, "to the hub") {
				c.toHub = without(t, c.toHub)
			} else {
				c.toAgent = without(t, c.toAgent)
			}
		},
		"a message comes twice": func(t *rapid.T) {
			if rapid.Bool().Draw(t, "to the hub") {
				c.toHub = doubled(c.toHub)
			} else {
				c.toAgent = doubled(c.toAgent)
			}
		},
		"messages change places": func(t *rapid.T) {
			if rapid.Bool().Draw(t, "to the hub") {
				swap(c.toHub)
			} else {
				swap(c.toAgent)
			}
		},
		"a message of the old stream comes on the new": func(t *rapid.T) {
			if !c.connected {
				t.Skip("no stream")
			}
			c.toHub = append(c.toHub, first(c.old.toHub)...)
			c.toAgent = append(c.toAgent, first(c.old.toAgent)...)
		},
		"the hub loses state": func(t *rapid.T) { c.hub.loses(fmt.Sprintf("s%d", rapid.IntRange(0, sessions-1).Draw(t, "session"))) },
	}
}

func without[M any](t *rapid.T, messages []M) []M {
	if len(messages) == 0 {
		t.Skip("nothing on the wire")
	}
	return messages[1:]
}

func doubled[M any](messages []M) []M { return append(first(messages), messages...) }

func first[M any](messages []M) []M { return slices.Clone(messages[:min(1, len(messages))]) }

func swap[M any](messages []M) {
	if len(messages) > 1 {
		messages[0], messages[1] = messages[1], messages[0]
	}
}

func (c *chaos) changeStatus(uid, status string) {
	if held := c.member.held[uid]; held != nil && held.state != "Stopping" {
		c.member.changes(uid, status)
	}
}

// check checks the invariants that hold at all times.
func (c *chaos) check(t *rapid.T) {
	for uid, held := range c.member.held {
		// G3: no epoch is assigned after a higher one, and none is sent
		// before it is durable.
		if held.epoch < c.highest[uid] {
			t.Fatalf("%s: epoch %d was stored after %d", uid, held.epoch, c.highest[uid])
		}
		if held.epoch > c.hub.epochs[uid] {
			t.Fatalf("%s: epoch %d is stored and was never assigned", uid, held.epoch)
		}
		c.highest[uid] = held.epoch
		// G4: what stops was released, or deleted by hand; an incomplete list
		// or a hub that lost its state stops nothing.
		if held.state == "Stopping" && !c.byHand[uid] && held.epoch > c.released[uid] {
			t.Fatalf("%s: epoch %d is being stopped, and %d was released", uid, held.epoch, c.released[uid])
		}
	}
	// G2: no status of an older epoch is applied. (lateArrivesHarmlessly
	// checks that none of an older stream is.)
	for uid, shown := range c.hub.cache {
		if shown.epoch < c.shown[uid] {
			t.Fatalf("%s: the hub shows epoch %d after %d", uid, shown.epoch, c.shown[uid])
		}
		c.shown[uid] = shown.epoch
	}
	// The agent follows no hub of an earlier term.
	if c.member.highest < c.term {
		t.Fatalf("the agent follows term %d after %d", c.member.highest, c.term)
	}
	c.term = c.member.highest
	// G6: all queues are bounded by the number of sessions.
	if c.hub.conn != nil && c.hub.conn.Outbox().Len() > sessions {
		t.Fatalf("%d sessions in the outbox", c.hub.conn.Outbox().Len())
	}
	if n := c.member.reporter.Len(); n > sessions {
		t.Fatalf("%d sessions in the reporter", n)
	}
	if n := c.member.results.Len(); n > 2*sessions {
		t.Fatalf("%d results waiting", n)
	}
}

// opened reports whether both ends have completed the opening.
func (c *chaos) opened() bool {
	return c.connected && c.hub.conn.State() == protocol.Serving && c.member.machine.State() == agentlink.Serving
}

// lateArrivesHarmlessly delivers a late message of an earlier stream, and checks
// that it changes nothing (G2).
func (c *chaos) lateArrivesHarmlessly() bool {
	before := describeCache(c.hub.cache)
	arrived := c.lateArrives()
	if after := describeCache(c.hub.cache); before != after {
		panic(fmt.Sprintf("a message of a stream that is over made the cache %s, it was %s", after, before))
	}
	return arrived
}

// converge delivers and completes everything, over a new stream or the current
// one.
func (c *chaos) converge(t *rapid.T) {
	c.trace = nil
	if !c.connected || rapid.Bool().Draw(t, "reconnect") {
		c.connect()
	}
	// This precedes any tick: the hub rightly ends a stream whose batch is not
	// acknowledged in time.
	c.exchange()
	c.settle(t)
	if c.broken {
		// Within a stream, only the digests can detect this.
		c.hub.loses(fmt.Sprintf("s%d", rapid.IntRange(0, sessions-1).Draw(t, "lost")))
		c.settle(t)
	}
	if c.hub.agreement != protocol.Agrees {
		t.Fatalf("the digests show %q\n%s", c.hub.agreement, strings.Join(c.trace, "\n"))
	}
	trace := func() string { return "\n" + strings.Join(c.trace, "\n") }
	if !c.connected {
		t.Fatalf("the stream did not last%s", trace())
	}
	if held, cached := describeHeld(c.member.held), describeCache(c.hub.cache); held != cached {
		t.Fatalf("the member holds %s, the hub has %s%s", held, cached, trace())
	}
	for uid, want := range c.hub.wanted {
		if held := c.member.held[uid]; held == nil || held.epoch != want.epoch || held.hash != want.hash {
			t.Fatalf("%s: wanted %+v, held %+v%s", uid, want, held, trace())
		}
	}
	if len(c.member.held) != len(c.hub.wanted) || len(c.hub.releasing) > 0 {
		t.Fatalf("held %s, wanted %d, releasing %v%s", describeHeld(c.member.held), len(c.hub.wanted), c.hub.releasing, trace())
	}
	if n := c.hub.conn.Outbox().Len(); n != 0 {
		t.Fatalf("%d sessions left in the outbox%s", n, trace())
	}
}

// settle advances time by half a minute and completes what can be completed.
func (c *chaos) settle(t *rapid.T) {
	for range 30 {
		c.tick(time.Second)
		if c.broken && !c.connected {
			c.connect() // The damage may end the stream once more.
		}
		c.exchange()
		if c.broken && !c.opened() {
			c.drop() // The timeouts of the opening do the same.
		}
		c.renew()
		c.memberWorks()
		for _, uid := range sorted(c.member.held) {
			if c.member.held[uid].state == "Stopping" {
				c.member.stopped(uid)
			}
		}
		c.check(t)
	}
}
