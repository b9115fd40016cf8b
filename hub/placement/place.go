package placement

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

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
	ledger.arrange(candidates)
	var c selection
	checks := q.checks()
next:
	for i := range candidates {
		a := ledger.read(i, &candidates[i])
		for _, check := range checks {
			if !check(q, &candidates[i], a) {
				continue next
			}
		}
		s := q.score(&candidates[i], a)
		c.add(&s)
	}
	if c.fits == 0 {
		return unschedulable(q, candidates, ledger)
	}
	if c.best.kind == Free {
		return placed(q, c, len(candidates))
	}
	return placedOnGrowth(q, c, len(candidates), ledger)
}

// Keep decides for a member in which capacity is reserved for the session: it is placed there if nothing but
// capacity is against it. A report may count a session whose reservation counts too until its acknowledgment
// arrives, so that the member seems to be full for a moment. It returns false if something else is against it.
func Keep(req Request, candidates []Candidate, ledger *Ledger, member types.UID) (Decision, bool) {
	i := slices.IndexFunc(candidates, func(c Candidate) bool { return c.UID == member })
	if i < 0 {
		return Decision{}, false
	}
	q, c := newQuery(&req, ledger), &candidates[i]
	a := ledger.read(i, c)
	against := func(f filter) bool { return f.name != capacityFilter.name && !f.check(q, c, a) }
	if q.cap != nil || q.refusedFree(c) || slices.ContainsFunc(pipeline, against) {
		return Decision{}, false
	}
	s := q.score(c, a)
	return Decision{
		Placed: true, Cluster: c.ClusterRef, Region: c.Region,
		Reason:  v1alpha1.ReasonPlaced,
		Message: c.Name + ": a slot is reserved there for the session",

		Candidates: len(candidates), Fit: 1, Score: v1alpha1.PlacementScore{Name: q.strategy.name, Value: s.strategy.String()},
	}, true
}

// selection tracks the best of the candidates that fit.
type selection struct {
	best score
	// fits counts the candidates that entered, peers those that differ from the best only
	// by the strategy.
	fits, peers int
	// free is the best with a free slot, if hasFree is set. It is up to date unless best has one.
	free    score
	hasFree bool
}

func (c *selection) add(s *score) {
	c.fits++
	order := -1
	if c.fits > 1 {
		order = s.comparePreferences(&c.best)
	}
	switch {
	case order < 0:
		if c.fits > 1 && c.best.kind == Free {
			c.free, c.hasFree = c.best, true
		}
		c.best, c.peers = *s, 1
	case order == 0:
		c.peers++
		if s.compareStrategy(&c.best) < 0 {
			c.best = *s
		}
	case s.kind == Free && c.best.kind != Free && (!c.hasFree || s.compare(&c.free) < 0):
		c.free, c.hasFree = *s, true
	}
}

// arrange moves the accounts of these candidates to one piece of memory, in their order, so that
// the processor reads ahead. The fleet returns the same slice until its members change.
func (l *Ledger) arrange(candidates []Candidate) {
	if l.arranged == &candidates[0] {
		return
	}
	l.arranged, l.recent = &candidates[0], make([]*account, len(candidates))
	accounts := make([]account, len(candidates))
	for i := range candidates {
		member := candidates[i].UID
		accounts[i] = *l.account(member)
		l.recent[i], l.accounts[member] = &accounts[i], &accounts[i]
	}
}

// read returns the account of a candidate, updated to its last report. The position of the
// candidate only makes it fast.
func (l *Ledger) read(position int, c *Candidate) *account {
	if position >= len(l.recent) {
		l.recent = append(l.recent, l.account(c.UID))
		position = len(l.recent) - 1
	}
	a := l.recent[position]
	if a.member != c.UID {
		a = l.account(c.UID)
		l.recent[position] = a
	}
	a.member = c.UID // equal, and compared faster next time if it is the same memory
	l.readInto(a, c.Capacity)
	return a
}

func (l *Ledger) readInto(a *account, c *Capacity) {
	if a.capacity != c {
		l.version++
		a.read(c, l.version)
	}
}
