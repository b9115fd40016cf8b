package placement

import (
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Place chooses the best of the candidates that fit, or explains why none does. It reserves
// nothing: the caller does so once the decision is durable, and before the next call.
func Place(req Request, candidates []Candidate, ledger *Ledger) Decision {
	if len(candidates) == 0 {
		return Decision{
			Reason:  v1alpha1.ReasonNoMembers,
			Message: "the fleet has no member: create a MemberCluster and enroll its agent",
		}
	}
	q := newQuery(&req, ledger)
	if q.cap != nil {
		return Decision{Reason: v1alpha1.ReasonPolicyCap, Message: q.cap.what(q) + ": " + q.cap.remedy(q)}
	}
	var c selection
	for i := range candidates {
		a := ledger.read(&candidates[i])
		if firstFailing(q, &candidates[i], a) < 0 {
			c.add(q.score(&candidates[i], a), q)
		}
	}
	if c.fits == 0 {
		return unschedulable(q, candidates, ledger)
	}
	return placed(q, c, len(candidates))
}

// selection tracks the best of the candidates that fit.
type selection struct {
	best score
	// fits counts the candidates that entered, peers those that differ from the best only
	// by the strategy.
	fits, peers int
}

func (c *selection) add(s score, q *query) {
	c.fits++
	order := -1
	if c.fits > 1 {
		order = s.comparePreferences(&c.best)
	}
	switch {
	case order < 0:
		c.best, c.peers = s, 1
	case order == 0:
		c.peers++
		if s.compareStrategy(&c.best, q.UID) < 0 {
			c.best = s
		}
	}
}

// read returns the account of a candidate, updated to its last report.
func (l *Ledger) read(c *Candidate) *account {
	a := l.account(c.UID)
	a.read(c.Capacity)
	return a
}
