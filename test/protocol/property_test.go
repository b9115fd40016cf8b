package protocol

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const sessions = 4

// TestBothSidesAgreeOnceTheNetworkHeals plays the hub's and the member's
// doings, restarts and losses at random and in any order, one message at a
// time, and then lets the network be.
func TestBothSidesAgreeOnceTheNetworkHeals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &chaos{world: newWorld(), highest: map[string]int64{}}
		c.hub.resync = true
		t.Repeat(c.actions())
		c.heal(t)
	})
}

type chaos struct {
	*world
	// highest epoch that the member ever held, by session.
	highest map[string]int64
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
		"hub releases":   func(t *rapid.T) { c.hub.release(any(t)) },
		"status changes": func(t *rapid.T) { c.changeStatus(any(t), rapid.StringMatching("Active/[a-z]").Draw(t, "status")) },
		"pods stop": func(t *rapid.T) {
			if uid := any(t); c.member.held[uid] != nil && c.member.held[uid].state == "Stopping" {
				c.member.stopped(uid)
			}
		},
		"deleted by hand": func(t *rapid.T) { c.member.changes(any(t), "Stopping") },
		"agent restarts":  func(*rapid.T) { c.drop(); c.member.restart(); c.member.now = c.now },
		"hub restarts":    func(*rapid.T) { c.drop(); c.hub.term++; c.hub.forgetAll() },
		"stream is lost":  func(*rapid.T) { c.drop() },
		"agent connects":  func(*rapid.T) { c.connect() },
	}
}

func (c *chaos) changeStatus(uid, status string) {
	if held := c.member.held[uid]; held != nil && held.state != "Stopping" {
		c.member.changes(uid, status)
	}
}

// check holds at all times.
func (c *chaos) check(t *rapid.T) {
	for uid, held := range c.member.held {
		if held.epoch < c.highest[uid] {
			t.Fatalf("%s: epoch %d was stored after %d", uid, held.epoch, c.highest[uid])
		}
		if held.epoch > c.hub.epochs[uid] {
			t.Fatalf("%s: epoch %d is stored and was never given", uid, held.epoch)
		}
		c.highest[uid] = held.epoch
	}
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

// heal lets everything be delivered and done, over a new stream or the one
// that there is.
func (c *chaos) heal(t *rapid.T) {
	c.trace = nil
	if !c.connected || rapid.Bool().Draw(t, "reconnect") {
		c.connect()
	}
	for range 20 {
		c.tick(time.Second)
		c.exchange()
		c.memberWorks()
		for _, uid := range sorted(c.member.held) {
			if c.member.held[uid].state == "Stopping" {
				c.member.stopped(uid)
			}
		}
		c.check(t)
	}
	told := func() string { return "\n" + strings.Join(c.trace, "\n") }
	if !c.connected {
		t.Fatalf("the stream did not last%s", told())
	}
	if held, picture := describeHeld(c.member.held), describePicture(c.hub.picture); held != picture {
		t.Fatalf("the member holds %s, the hub sees %s%s", held, picture, told())
	}
	for uid, want := range c.hub.wanted {
		if held := c.member.held[uid]; held == nil || held.epoch != want.epoch || held.hash != want.hash {
			t.Fatalf("%s: wanted %+v, held %+v%s", uid, want, held, told())
		}
	}
	if len(c.member.held) != len(c.hub.wanted) || len(c.hub.releasing) > 0 {
		t.Fatalf("held %s, wanted %d, releasing %v%s", describeHeld(c.member.held), len(c.hub.wanted), c.hub.releasing, told())
	}
	if n := c.hub.conn.Outbox().Len(); n != 0 {
		t.Fatalf("%d sessions left in the outbox%s", n, told())
	}
}
