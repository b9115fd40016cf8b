package queue

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

const (
	// settledStreak is how many that wait for no place have their turn before
	// one that does.
	settledStreak = 4
	// agingStep is how long a wait raises a priority by one.
	agingStep = time.Minute
	// widestGap is the most that one priority is ahead of another, in steps of
	// aging: what waits at the lowest is served once in so many.
	widestGap = 30
)

// Rank is what an item's turn depends on.
type Rank struct {
	// Waits is whether it waits for a place. Nothing else matters of one that
	// does not.
	Waits bool
	// Priority, higher first.
	Priority int32
	// Namespace and User whose turn it is.
	Namespace, User string
	// Since when it waits.
	Since time.Time
}

// plain is the rank without what does not matter of it.
func (r Rank) plain() Rank {
	if !r.Waits {
		return Rank{}
	}
	return r
}

// Turn is what Pop hands out of an item that waits for a place, and Settle takes
// back. The zero Turn is of one that does not.
type Turn struct {
	level     *level
	namespace *share
	user      *share
}

// Waits is whether the turn is of an item that waits for a place.
func (t Turn) Waits() bool { return t.level != nil }

// Queue of items, each once. It is for one goroutine at a time.
type Queue[T comparable] struct {
	entries map[T]*entry
	settled line
	levels  []*level // by priority, highest first
	waiting int
	// streak of turns of the settled side, while others wait.
	streak int
	// arrivals numbers the entries, for ties.
	arrivals uint64
}

// entry is an item that is queued.
type entry struct {
	item    any
	rank    Rank
	arrival uint64
	index   int // in its user's line
}

// New returns an empty queue.
func New[T comparable]() *Queue[T] { return &Queue[T]{entries: map[T]*entry{}} }

// Len is how many items are queued.
func (q *Queue[T]) Len() int { return len(q.entries) }

// Waiting is how many items are queued that wait for a place.
func (q *Queue[T]) Waiting() int { return q.waiting }

// Has is whether an item is queued.
func (q *Queue[T]) Has(item T) bool { return q.entries[item] != nil }

// All are the items that are queued, in no order.
func (q *Queue[T]) All() iter.Seq[T] { return maps.Keys(q.entries) }

// Push queues an item. One that is queued already is touched.
func (q *Queue[T]) Push(item T, r Rank) {
	if q.entries[item] != nil {
		q.Touch(item, r)
		return
	}
	q.arrivals++
	e := &entry{item: item, rank: r.plain(), arrival: q.arrivals}
	q.entries[item] = e
	q.enter(e)
}

// Touch gives a queued item another rank; it keeps its place if that is the same.
func (q *Queue[T]) Touch(item T, r Rank) {
	e := q.entries[item]
	if e == nil || e.rank == r.plain() {
		return
	}
	q.leave(e)
	e.rank = r.plain()
	q.enter(e)
}

// Remove takes an item out, without a turn.
func (q *Queue[T]) Remove(item T) {
	if e := q.entries[item]; e != nil {
		q.leave(e)
		delete(q.entries, item)
	}
}

// Pop gives the next item its turn; false: there is none. The turn of one that
// waits for a place is to be settled.
func (q *Queue[T]) Pop(now time.Time) (item T, t Turn, ok bool) {
	var e *entry
	switch {
	case q.settled.Len() > 0 && (q.waiting == 0 || q.streak < settledStreak):
		q.streak++
		e = q.settled.pop()
	case q.waiting > 0:
		q.streak = 0
		e, t = q.next(now).pop()
		q.waiting--
	default:
		return item, t, false
	}
	item, _ = e.item.(T)
	delete(q.entries, item)
	return item, t, true
}

// First lists the next n that wait for a place, as if each were given its turn
// now and nothing came of it. Nothing changes by it.
func (q *Queue[T]) First(n int, now time.Time) []T {
	var out []T
	var undo []func()
	for range min(n, q.waiting) {
		e, putBack := q.next(now).lend()
		item, _ := e.item.(T)
		out, undo = append(out, item), append(undo, putBack)
	}
	for _, putBack := range slices.Backward(undo) {
		putBack()
	}
	return out
}

// Settle says what came of a turn: a place, or nothing.
func (q *Queue[T]) Settle(t Turn, served bool, now time.Time) {
	if t.Waits() {
		t.level.settle(t, served, now)
		q.levels = slices.DeleteFunc(q.levels, (*level).forgettable)
	}
}

// Charge counts a place that was given without a turn of this queue.
func (q *Queue[T]) Charge(r Rank, now time.Time) {
	q.level(r.Priority).charge(r, now)
}

// next is the level whose turn it is: the highest, or one below it that has aged
// past it.
func (q *Queue[T]) next(now time.Time) *level {
	var best *level
	var raised int64
	for _, l := range q.levels {
		if l.namespaces.Len() == 0 {
			continue
		}
		age := l.age(now)
		if best == nil || age > min(raised+int64(best.priority)-int64(l.priority), widestGap) {
			best, raised = l, age
		}
	}
	return best
}

func (q *Queue[T]) enter(e *entry) {
	if !e.rank.Waits {
		q.settled.push(e)
		return
	}
	q.waiting++
	q.level(e.rank.Priority).push(e)
}

// level of a priority.
func (q *Queue[T]) level(priority int32) *level {
	i, found := slices.BinarySearchFunc(q.levels, priority, func(l *level, p int32) int { return cmp.Compare(p, l.priority) })
	if !found {
		q.levels = slices.Insert(q.levels, i, newLevel(priority))
	}
	return q.levels[i]
}

func (q *Queue[T]) leave(e *entry) {
	if !e.rank.Waits {
		q.settled.remove(e)
		return
	}
	q.waiting--
	q.level(e.rank.Priority).remove(e)
}
