package assignment

import (
	"testing"
	"time"
)

func TestPendingOrders(t *testing.T) {
	withdrawn := func(p *pending, upTo int64, force bool) {
		w := withdrawOrder("u1", upTo).GetWithdraw()
		w.Force = force
		p.withdraw(&withdrawal{Withdrawal: w})
	}
	for name, tc := range map[string]struct {
		before   func(*pending)
		epoch    int64
		accepted bool
		minEpoch int64
	}{
		"the first":                     {before: func(*pending) {}, epoch: 1, accepted: true},
		"the same again":                {before: func(p *pending) { p.assign(assignment("u1", 2, "ada"), time.Time{}) }, epoch: 2, accepted: true},
		"a lower epoch":                 {before: func(p *pending) { p.assign(assignment("u1", 3, "ada"), time.Time{}) }, epoch: 2, minEpoch: 3},
		"an epoch that still stops":     {before: func(p *pending) { withdrawn(p, 2, false) }, epoch: 2},
		"the epoch after":               {before: func(p *pending) { withdrawn(p, 2, false) }, epoch: 3, accepted: true},
		"an epoch that has stopped":     {before: func(p *pending) { p.raise("u1", 3) }, epoch: 2, minEpoch: 3},
		"an epoch that was deleted":     {before: func(p *pending) { p.deleted(assignment("u1", 2, "ada")) }, epoch: 2},
		"another session's, in between": {before: func(p *pending) { p.assign(assignment("u2", 9, "bob"), time.Time{}) }, epoch: 1, accepted: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPending()
			tc.before(p)
			if accepted, minEpoch := p.assign(assignment("u1", tc.epoch, "ada"), time.Time{}); accepted != tc.accepted || minEpoch != tc.minEpoch {
				t.Errorf("accepted %t, lowest %d; want %t, %d", accepted, minEpoch, tc.accepted, tc.minEpoch)
			}
		})
	}

	p := newPending()
	p.assign(assignment("u1", 1, "ada"), time.Time{})
	withdrawn(p, 2, true)
	withdrawn(p, 2, false)
	withdrawn(p, 1, false)
	if s := p.slots["u1"]; s.assign != nil || s.withdraw.GetUpToEpoch() != 2 || !s.withdraw.GetForce() {
		t.Errorf("pending: %+v", s)
	}
	p.deleted(assignment("u1", 2, "ada"))
	if w := p.slots["u1"].withdraw; w.acknowledged {
		t.Error("the hub's withdrawal was replaced by that of a deletion, and would not be acknowledged")
	}
	p.update("u1", func(s *slot) { s.withdraw = nil })
	if len(p.slots) != 0 {
		t.Errorf("%d slots although nothing is pending", len(p.slots))
	}
}
