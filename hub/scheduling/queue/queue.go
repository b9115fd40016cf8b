package queue

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

const (
	// agingStep is how long a wait raises a priority by one.
	agingStep = time.Minute
	// widestGap is the most that one priority is ahead of another, in steps of
	// aging: what waits at the lowest is served once in so many.
	widestGap = 30
)

// Rank is what an item's turn depends on.
type Rank struct {
	// Priority, higher first.
	Priority int32
	// Namespace and User whose turn it is.
	Namespace, User string
	// Since when it waits.
	Since time.Time
}

// Turn is what Pop hands out of an item, and Settle takes back. The zero Turn is of none.
type Turn struct {
	level     *level
	namespace *share
	user      *share
}

// Queue of items, each once. It is for one goroutine at a time.
type Queue[T comparable] struct {
	entries map[T]*entry
	levels  []*level // by priority, highest first
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
	e := &entry{item: item, rank: r, arrival: q.arrivals}
	q.entries[item] = e
	q.enter(e)
}

// Touch gives a queued item another rank; it keeps its place if that is the same.
func (q *Queue[T]) Touch(item T, r Rank) {
	e := q.entries[item]
	if e == nil || e.rank == r {
		return
	}
	q.leave(e)
	e.rank = r
	q.enter(e)
}

// Remove takes an item out, without a turn.
func (q *Queue[T]) Remove(item T) {
	if e := q.entries[item]; e != nil {
		q.leave(e)
		delete(q.entries, item)
	}
}

// Pop gives the next item its turn, which is to be settled; false: there is none.
func (q *Queue[T]) Pop(now time.Time) (item T, t Turn, ok bool) {
	if len(q.entries) == 0 {
		return item, t, false
	}
	e, t := q.next(now).pop()
	item, _ = e.item.(T)
	delete(q.entries, item)
	return item, t, true
}

// First lists the next n, as if each were given its turn now and nothing came of it.
// Nothing changes by it.
func (q *Queue[T]) First(n int, now time.Time) []T {
	var out []T
	var undo []func()
	for range min(n, len(q.entries)) {
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
	if t.level != nil {
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

func (q *Queue[T]) enter(e *entry) { q.level(e.rank.Priority).push(e) }

// level of a priority.
func (q *Queue[T]) level(priority int32) *level {
	i, found := slices.BinarySearchFunc(q.levels, priority, func(l *level, p int32) int { return cmp.Compare(p, l.priority) })
	if !found {
		q.levels = slices.Insert(q.levels, i, newLevel(priority))
	}
	return q.levels[i]
}

func (q *Queue[T]) leave(e *entry) { q.level(e.rank.Priority).remove(e) }
