package queue

import (
	"cmp"
	"slices"
	"time"
)

const (
	// agingStep is the wait that raises a priority by one.
	agingStep = time.Minute
	// widestGap is the most by which one priority is ahead of another, in steps of aging.
	widestGap = 30
)

// Rank determines when an item is dispatched.
type Rank struct {
	// Priority, higher first.
	Priority int32
	// Namespace and User that are charged.
	Namespace, User string
	// Since is when it began to wait.
	Since time.Time
}

// Dispatch is a dispatch by Pop that is not finished. The zero value is none.
type Dispatch struct {
	level     *level
	namespace *share
	user      *share
}

// Queue holds each item at most once. It is not safe for concurrent use. The zero value is
// empty.
type Queue[T comparable] struct {
	entries map[T]*entry
	levels  []*level // by priority, highest first
	// arrivals numbers the entries, for ties.
	arrivals uint64
}

// entry is a queued item.
type entry struct {
	item    any
	rank    Rank
	arrival uint64
	index   int // in its user's heap
}

// before orders two entries by how long they have waited.
func (e *entry) before(other *entry) bool {
	return cmp.Or(e.rank.Since.Compare(other.rank.Since), cmp.Compare(e.arrival, other.arrival)) < 0
}

func (e *entry) setIndex(i int) { e.index = i }

// Len returns how many items are queued.
func (q *Queue[T]) Len() int { return len(q.entries) }

// Push queues an item, or sets the rank of a queued one.
func (q *Queue[T]) Push(item T, r Rank) {
	if q.entries[item] != nil {
		q.Touch(item, r)
		return
	}
	if q.entries == nil {
		q.entries = map[T]*entry{}
	}
	q.arrivals++
	e := &entry{item: item, rank: r, arrival: q.arrivals}
	q.entries[item] = e
	q.insert(e)
}

// Touch sets the rank of a queued item.
func (q *Queue[T]) Touch(item T, r Rank) {
	e := q.entries[item]
	if e == nil || e.rank == r {
		return
	}
	q.extract(e)
	e.rank = r
	q.insert(e)
}

// Remove removes an item without dispatching it.
func (q *Queue[T]) Remove(item T) {
	if e := q.entries[item]; e != nil {
		q.extract(e)
		delete(q.entries, item)
	}
}

// Pop dispatches the next item; the caller must Finish the dispatch. It returns false if
// there is none.
func (q *Queue[T]) Pop(now time.Time) (item T, d Dispatch, ok bool) {
	if len(q.entries) == 0 {
		return item, d, false
	}
	e, d := q.next(now).pop()
	item, _ = e.item.(T)
	delete(q.entries, item)
	return item, d, true
}

// First returns the next n, as if each were dispatched now without success. It changes nothing.
func (q *Queue[T]) First(n int, now time.Time) []T {
	var out []T
	var undos []func()
	for range min(n, len(q.entries)) {
		e, undo := q.next(now).peek()
		item, _ := e.item.(T)
		out, undos = append(out, item), append(undos, undo)
	}
	for _, undo := range slices.Backward(undos) {
		undo()
	}
	return out
}

// Finish ends a dispatch: served reports whether it was successful.
func (q *Queue[T]) Finish(d Dispatch, served bool, now time.Time) {
	if d.level != nil {
		d.level.finish(d, served, now)
		q.levels = slices.DeleteFunc(q.levels, (*level).removable)
	}
}

// Charge counts a successful dispatch of another queue.
func (q *Queue[T]) Charge(r Rank, now time.Time) {
	q.level(r.Priority).charge(r, now)
}

// next returns the level to dispatch from: the highest, or a lower one that has aged past it.
func (q *Queue[T]) next(now time.Time) *level {
	var best *level
	var raised int64
	for _, l := range q.levels {
		if len(l.namespaces.queue) == 0 {
			continue
		}
		age := l.age(now)
		if best == nil || age > min(raised+int64(best.priority)-int64(l.priority), widestGap) {
			best, raised = l, age
		}
	}
	return best
}

func (q *Queue[T]) insert(e *entry) { q.level(e.rank.Priority).push(e) }

// level returns the level of a priority.
func (q *Queue[T]) level(priority int32) *level {
	i, found := slices.BinarySearchFunc(q.levels, priority, func(l *level, p int32) int { return cmp.Compare(p, l.priority) })
	if !found {
		q.levels = slices.Insert(q.levels, i, &level{priority: priority, namespaces: newFairShares()})
	}
	return q.levels[i]
}

func (q *Queue[T]) extract(e *entry) { q.level(e.rank.Priority).remove(e) }
