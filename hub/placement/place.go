package placement

import (
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Place chooses the best of the candidates that fit, or says why none does.
// It reserves nothing: the caller does once the decision is durable, and
// before it asks again. A nil ledger holds no reservations.
func Place(req Request, candidates []Candidate, ledger *Ledger) Decision {
	if ledger == nil {
		ledger = NewLedger()
	}
	if len(candidates) == 0 {
		return noMembers()
	}
	q := newQuery(&req, ledger)
	var best *Candidate
	var bestScore score
	fits := 0
	for i := range candidates {
		c := &candidates[i]
		a := ledger.read(c)
		if firstFailing(q, c, a) != nil {
			continue
		}
		fits++
		if s := q.score(c, a); best == nil || s.beats(&bestScore, q.UID) {
			best, bestScore = c, s
		}
	}
	if best == nil {
		return unschedulable(q, candidates, ledger)
	}
	return placed(q, bestScore, fits, len(candidates))
}

// read is the account of a candidate, speaking of its last report.
func (l *Ledger) read(c *Candidate) *account {
	a := l.account(c.UID)
	a.read(c.Capacity)
	return a
}

func noMembers() Decision {
	return Decision{
		Reason:  v1alpha1.ReasonNoMembers,
		Message: "the fleet has no member: create a MemberCluster and enrol its agent",
	}
}
