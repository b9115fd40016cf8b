package simulation

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

// lose takes away a node or a member for as long as the loss lasts.
func (r *run) lose(l trace.Loss) {
	m := r.byName[l.Member]
	if l.Node != "" {
		n := m.node(l.Node)
		m.loseNode(n)
		r.after(l.Lasts, func() { m.regainNode(n) })
		return
	}
	m.losses++
	if m.losses == 1 {
		m.spell++
		r.hub.missing(m)
	}
	r.after(l.Lasts, func() {
		if m.losses--; m.losses == 0 {
			m.spell++
			m.changed()
			r.after(r.options.Link, func() {
				if m.losses == 0 {
					r.hub.back(m)
				}
			})
		}
	})
}

// missing handles that a member sends no more heartbeats.
func (h *hub) missing(m *member) {
	spell := m.spell
	at := h.now
	h.after(suspectAfter, func() {
		if m.spell == spell {
			h.candidates[m.index].Ready = false
		}
	})
	h.after(failoverAfter, func() { h.failOver(m, spell, at, 0) })
}

// failOver fails over the next session of a lost member, at most twenty a second.
// A session that fits nowhere keeps its placement and is pending.
func (h *hub) failOver(m *member, spell int, since time.Duration, next int) {
	for ; m.spell == spell && next < len(h.sessions); next++ {
		s := h.sessions[next]
		if s.member != m || s.waits {
			continue
		}
		h.result.Failovers++
		s.left, s.failover = m.leftOf(s, since), true
		h.place(s)
		h.after(failoverPause, func() { h.failOver(m, spell, since, next+1) })
		return
	}
}

// back handles that a member's agent has reconnected: it reports what it has, and
// gets its orders.
func (h *hub) back(m *member) {
	for _, s := range h.sessions {
		if epoch, ok := s.releasing[m]; ok {
			m.receive(func() { m.withdraw(s, epoch) })
		}
		if s.member != m {
			continue
		}
		h.dequeue(s)
		switch c := m.copies[s]; {
		case m.ended[s] == s.epoch:
			h.stopped(m, s, s.epoch)
		case c != nil && c.epoch == s.epoch:
			h.stored(m, s, s.epoch, c.countedFrom)
		default:
			h.assign(s)
		}
	}
	spell := m.spell
	h.after(stableFor, func() {
		if m.spell == spell {
			h.candidates[m.index].Ready = true
			h.wake(m)
		}
	})
}
