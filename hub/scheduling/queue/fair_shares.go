package queue

import (
	"cmp"
	"container/heap"
	"time"
)

// share is the state of a namespace, or of a user of one.
type share struct {
	name string
	account
	// inFlight are its dispatches that are not finished.
	inFlight int64
	// last time that it was served.
	last time.Time

	// users of a namespace, nil for a user, which has items.
	users *fairShares
	items rankedHeap[*entry]

	index int // in the heap of the shares with items, -1 without items
}

// account holds the charges of a share.
type account struct {
	// tag is the start tag of the share's next dispatch, in busy period busy.
	tag, busy int64
	// served counts the successful dispatches, from the floor of the shares.
	served int64
}

// head returns the share's next item, nil if it has none.
func (s *share) head() *entry {
	switch {
	case s.users != nil && len(s.users.queue) > 0:
		return s.users.first().head()
	case len(s.items) > 0:
		return s.items[0]
	}
	return nil
}

func (s *share) before(other *share) bool {
	order := cmp.Or(cmp.Compare(s.tag, other.tag), cmp.Compare(s.served, other.served))
	return order < 0 || order == 0 && s.head().before(other.head())
}

func (s *share) setIndex(i int) { s.index = i }

// fairShares are the namespaces of a level, or the users of a namespace. Those with items
// are a heap.
type fairShares struct {
	shares map[string]*share
	queue  rankedHeap[*share]
	// virtualTime is the tag of the last dispatch: a returning share has no lower one. It
	// restarts at zero with each busy period.
	virtualTime, busy int64
	// dispatched is set if there was a dispatch in this busy period.
	dispatched bool
	// inFlight are the dispatches that are not finished.
	inFlight int64
	// floor is the served count of the last share served: a returning share has no lower
	// one.
	floor int64
	// sweepAt is the number of shares at which the next sweep runs.
	sweepAt int
}

func newFairShares() fairShares { return fairShares{shares: map[string]*share{}} }

// share returns the share of a name, a new one if it is unknown.
func (r *fairShares) share(name string) *share {
	s := r.shares[name]
	if s == nil {
		s = &share{name: name, index: -1}
		r.shares[name] = s
	}
	return s
}

// first returns the first share with items.
func (r *fairShares) first() *share { return r.queue[0] }

// queued updates the place of a share after its items or its account have changed.
func (r *fairShares) queued(s *share) {
	switch waits := s.head() != nil; {
	case waits && s.index < 0:
		if s.busy != r.busy {
			s.tag, s.busy = 0, r.busy
		}
		s.tag, s.served = max(s.tag, r.virtualTime), max(s.served, r.floor)
		heap.Push(&r.queue, s)
	case waits:
		heap.Fix(&r.queue, s.index)
	case s.index >= 0:
		heap.Remove(&r.queue, s.index)
	}
	if len(r.queue) == 0 && r.inFlight == 0 && r.dispatched {
		r.virtualTime, r.dispatched = 0, false
		r.busy++
	}
	r.forget(s)
}

// charge charges a share for a dispatch.
func (r *fairShares) charge(s *share) {
	r.virtualTime, r.dispatched = max(r.virtualTime, s.tag), true
	s.tag++
	s.inFlight++
	r.inFlight++
	r.queued(s)
}

// undo reverts a dispatch: it restores the share's account and the virtual time.
func (r *fairShares) undo(s *share, was account, virtualTime int64) {
	s.inFlight--
	r.inFlight--
	r.queued(s)
	s.account, r.virtualTime = was, virtualTime
	r.queued(s)
}

// finish ends a dispatch of a share.
func (r *fairShares) finish(s *share, served bool, now time.Time) {
	s.inFlight--
	r.inFlight--
	if served {
		s.served = max(s.served, r.floor)
		r.floor = s.served
		s.served++
		s.last = now
	}
	r.queued(s)
	r.sweep(now)
}

// forget removes a share that equals a new one.
func (r *fairShares) forget(s *share) {
	owes := s.busy == r.busy && s.tag > r.virtualTime
	if s.unused() && !owes && s.served <= r.floor && (s.users == nil || len(s.users.shares) == 0) {
		delete(r.shares, s.name)
	}
}

// unused reports whether the share has neither items nor open dispatches.
func (s *share) unused() bool { return s.index < 0 && s.inFlight == 0 }

const (
	// sweepOver is the minimum number of shares for a sweep.
	sweepOver = 64
	// retention is how long an unused share is kept.
	retention = time.Hour
)

// sweep removes, once there are many, the shares that equal a new one and those that were
// last served long ago.
func (r *fairShares) sweep(now time.Time) {
	if len(r.shares) < max(r.sweepAt, sweepOver) {
		return
	}
	for name, s := range r.shares {
		if r.forget(s); s.unused() && now.Sub(s.last) > retention {
			delete(r.shares, name)
		}
	}
	r.sweepAt = 2 * len(r.shares)
}
