package queue

import (
	"cmp"
	"container/heap"
	"time"
)

// share is what a namespace, or a user of one, has had.
type share struct {
	name string
	account
	// flying are its turns that are not settled.
	flying int64
	// last time that it was served.
	last time.Time

	// users of a namespace; nil: it is a user, and has a line.
	users *ring
	line  line

	index int // among those of the ring that have somebody waiting; -1: none
}

// account is what a share is charged.
type account struct {
	// tag is the turn of the ring at which the share has its next one, of this
	// busy time of the ring.
	tag, busy int64
	// served are the turns that came to something, reckoned from the ring's
	// floor.
	served int64
}

// head is the next of the share to have a turn; nil: none waits.
func (s *share) head() *entry {
	if s.users == nil {
		return s.line.head()
	}
	if s.users.Len() == 0 {
		return nil
	}
	return s.users.first().head()
}

// ring is the namespaces of a level, or the users of a namespace. Those of which
// somebody waits are a heap.
type ring struct {
	shares map[string]*share
	queue  []*share
	// turn is the tag of whoever had a turn last: nobody who comes again has a
	// lower one. It begins at none each time that the ring was idle.
	turn, busy int64
	// taken is whether any turn was taken in this busy time.
	taken bool
	// flying are the turns that are not settled.
	flying int64
	// floor is what whoever was served last had been given before: nobody who
	// comes again is taken to have been given less.
	floor int64
	// sweepAt is how many shares there are to be before the next sweep.
	sweepAt int
}

func newRing() ring { return ring{shares: map[string]*share{}} }

// share of a name, which has been charged nothing where nothing is known of it.
func (r *ring) share(name string) *share {
	s := r.shares[name]
	if s == nil {
		s = &share{name: name, index: -1}
		r.shares[name] = s
	}
	return s
}

// first of those that have somebody waiting.
func (r *ring) first() *share { return r.queue[0] }

// queued puts a share where it belongs after its line, or what it was given, has
// changed.
func (r *ring) queued(s *share) {
	switch waits := s.head() != nil; {
	case waits && s.index < 0:
		if s.busy != r.busy {
			s.tag, s.busy = 0, r.busy
		}
		s.tag, s.served = max(s.tag, r.turn), max(s.served, r.floor)
		heap.Push(r, s)
	case waits:
		heap.Fix(r, s.index)
	case s.index >= 0:
		heap.Remove(r, s.index)
	}
	if len(r.queue) == 0 && r.flying == 0 && r.taken {
		r.turn, r.taken = 0, false
		r.busy++
	}
	r.forget(s)
}

// take charges a share for a turn that it has now.
func (r *ring) take(s *share) {
	r.turn, r.taken = max(r.turn, s.tag), true
	s.tag++
	s.flying++
	r.flying++
	r.queued(s)
}

// giveBack undoes a turn that was taken: the share's account and the ring's turn
// are as they were.
func (r *ring) giveBack(s *share, was account, turn int64) {
	s.flying--
	r.flying--
	r.queued(s)
	s.account, r.turn = was, turn
	r.queued(s)
}

// settle says whether a turn of a share came to something.
func (r *ring) settle(s *share, served bool, now time.Time) {
	s.flying--
	r.flying--
	if served {
		s.served = max(s.served, r.floor)
		r.floor = s.served
		s.served++
		s.last = now
	}
	r.queued(s)
	r.sweep(now)
}

// forget a share that is owed nothing: if it comes again, it is charged what is
// charged everybody.
func (r *ring) forget(s *share) {
	owes := s.busy == r.busy && s.tag > r.turn
	if s.resting() && !owes && s.served <= r.floor && (s.users == nil || s.users.idle()) {
		delete(r.shares, s.name)
	}
}

// resting is whether nobody of the share waits or has an open turn.
func (s *share) resting() bool { return s.index < 0 && s.flying == 0 }

const (
	// sweepOver is how many shares are remembered without a look at whether
	// some can be forgotten.
	sweepOver = 64
	// memory is how long a share is remembered of which nobody waits.
	memory = time.Hour
)

// sweep forgets, now and then, those that the floor has risen to and those that
// were last served long ago.
func (r *ring) sweep(now time.Time) {
	if len(r.shares) < max(r.sweepAt, sweepOver) {
		return
	}
	for name, s := range r.shares {
		if r.forget(s); s.resting() && now.Sub(s.last) > memory {
			delete(r.shares, name)
		}
	}
	r.sweepAt = 2 * len(r.shares)
}

// idle is whether the ring remembers nobody.
func (r *ring) idle() bool { return len(r.shares) == 0 }

// Len, Less, Swap, Push and Pop make the ring a heap (heap.Interface).
func (r *ring) Len() int { return len(r.queue) }

func (r *ring) Less(i, j int) bool {
	a, b := r.queue[i], r.queue[j]
	return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.served, b.served), compare(a.head(), b.head())) < 0
}

func (r *ring) Swap(i, j int) {
	r.queue[i], r.queue[j] = r.queue[j], r.queue[i]
	r.queue[i].index, r.queue[j].index = i, j
}

// Push is for heap alone.
func (r *ring) Push(x any) {
	s, _ := x.(*share)
	s.index = len(r.queue)
	r.queue = append(r.queue, s)
}

// Pop is for heap alone.
func (r *ring) Pop() any {
	s := r.queue[len(r.queue)-1]
	r.queue[len(r.queue)-1] = nil
	r.queue, s.index = r.queue[:len(r.queue)-1], -1
	return s
}
