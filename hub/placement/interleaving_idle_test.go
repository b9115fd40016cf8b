package placement

import (
	"fmt"

	"pgregory.net/rapid"
)

// word is what the hub wants a member to have of a session.
func (s *simSession) word() string {
	if s.idle {
		return fmt.Sprint(s.epoch, ".", s.run, " idle")
	}
	return fmt.Sprint(s.epoch, ".", s.run)
}

// rest makes sessions idle on the hub. Their members don't know yet.
func (w *world) rest(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member != nil && !s.idle && rapid.Bool().Draw(t, "rests") {
			s.idle = true
		}
	}
}

// doze has members hear which of theirs are idle: those leave their nodes.
func (w *world) doze(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member == nil || s.gone || !s.idle || s.has == s.word() || rapid.Bool().Draw(t, "later") {
			continue
		}
		if s.stored {
			s.member.take(s.node, s.resources, -1)
			s.stored = false
		}
		w.acknowledge(s)
	}
}

// wake asks for room for sessions that are idle, where they are and under the
// epoch that they have; some of them rest again before their members hear of it.
func (w *world) wake(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member == nil || !s.idle || rapid.Bool().Draw(t, "sleeps on") {
			continue
		}
		m := s.member.candidate
		r := session(string(s.uid))
		r.Resources, r.Template = s.resources, s.template
		include := w.ledger.Exclude(s.uid, m.UID)
		d := Place(r, []Candidate{m}, w.ledger)
		include()
		if !d.Placed {
			continue
		}
		restore := w.ledger.ReserveAgain(s.uid, s.epoch, m.UID, s.template, s.resources)
		if rapid.Bool().Draw(t, "not written") {
			restore()
			continue
		}
		s.idle, s.run = false, s.run+1
	}
}

// rebuild reserves what a session is given, as a new hub reads it.
func (w *world) rebuild(s *simSession) {
	if s.run > 1 {
		w.ledger.ReserveAgain(s.uid, s.epoch, s.member.candidate.UID, s.template, s.resources)
		return
	}
	w.reserve(s)
}
