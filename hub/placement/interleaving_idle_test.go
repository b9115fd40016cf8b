package placement

import (
	"fmt"

	"pgregory.net/rapid"
)

// desired returns the desired state of a session in its member.
func (s *simSession) desired() string {
	if s.idle {
		return fmt.Sprint(s.epoch, ".", s.run, " idle")
	}
	return fmt.Sprint(s.epoch, ".", s.run)
}

// suspend makes sessions idle on the hub. Their members do not have the orders yet.
func (w *world) suspend(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member != nil && !s.idle && rapid.Bool().Draw(t, "suspends") {
			s.idle = true
		}
	}
}

// stopIdle delivers the orders of idle sessions to their members, which stop them.
func (w *world) stopIdle(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member == nil || s.gone || !s.idle || s.has == s.desired() || rapid.Bool().Draw(t, "later") {
			continue
		}
		if s.stored {
			s.member.take(s.node, s.resources, -1)
			s.stored = false
		}
		w.acknowledge(s)
	}
}

// resume requests capacity for idle sessions in their members under their epochs; the
// write of some decisions fails.
func (w *world) resume(t *rapid.T) {
	for _, s := range w.inOrder() {
		if s.member == nil || !s.idle || rapid.Bool().Draw(t, "stays idle") {
			continue
		}
		m := s.member.candidate
		r := session(string(s.uid))
		r.Resources, r.Template = s.resources, s.template
		restore := w.ledger.Exclude(s.uid, m.UID)
		d := Place(r, []Candidate{m}, w.ledger)
		restore()
		if !d.Placed {
			continue
		}
		release := w.ledger.ReserveAgain(s.uid, s.epoch, m.UID, s.template, s.resources)
		if rapid.Bool().Draw(t, "not written") {
			release()
			continue
		}
		s.idle, s.run, s.kind = false, s.run+1, d.Kind
	}
}

// rebuild makes the reservation of a session as a new hub does.
func (w *world) rebuild(s *simSession) {
	if s.run > 1 {
		w.ledger.ReserveAgain(s.uid, s.epoch, s.member.candidate.UID, s.template, s.resources)
		return
	}
	w.reserve(s)
}
