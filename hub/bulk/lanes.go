package bulk

import "sync"

// bulkShare is how many turns there are for each one of the second lane, while both have items.
const bulkShare = 4

// lanes is the storage of a work queue (workqueue.Queue), which holds each item once.
type lanes[T comparable] struct {
	mu sync.Mutex
	// marked are items that were added in bulk, and are not in a lane yet.
	marked map[T]bool
	// first has the items that were added alone. second has those that were added in bulk, and some
	// that have moved to the first lane since: those that wait are in waiting.
	first, second []T
	waiting       map[T]bool
	// turns since the last one of the second lane.
	turns int
}

func newLanes[T comparable]() *lanes[T] {
	return &lanes[T]{marked: map[T]bool{}, waiting: map[T]bool{}}
}

// mark records how an item is about to be added.
func (l *lanes[T]) mark(item T, inBulk bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if inBulk {
		l.marked[item] = true
	} else {
		delete(l.marked, item)
	}
}

// Push adds an item that is in neither lane.
func (l *lanes[T]) Push(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.marked[item] {
		l.first = append(l.first, item)
		return
	}
	delete(l.marked, item)
	l.second = append(l.second, item)
	l.waiting[item] = true
}

// Touch adds an item that is in a lane once more: alone, it moves to the end of the first lane.
func (l *lanes[T]) Touch(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marked[item] {
		delete(l.marked, item)
		return
	}
	if l.waiting[item] {
		l.leaveSecond(item)
		l.first = append(l.first, item)
	}
}

// leaveSecond removes an item from the second lane. The last one takes along those that moved before.
func (l *lanes[T]) leaveSecond(item T) {
	if delete(l.waiting, item); len(l.waiting) == 0 {
		l.second = nil
	}
}

// Len returns the number of items.
func (l *lanes[T]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.first) + len(l.waiting)
}

// Pop removes the next item; there is one.
func (l *lanes[T]) Pop() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns++; len(l.first) > 0 && (len(l.waiting) == 0 || l.turns < bulkShare) {
		return take(&l.first)
	}
	l.turns = 0
	for {
		if item := take(&l.second); l.waiting[item] {
			l.leaveSecond(item)
			return item
		}
	}
}

func take[T any](queue *[]T) T {
	var none T
	item := (*queue)[0]
	(*queue)[0] = none // it may hold memory
	*queue = (*queue)[1:]
	return item
}
