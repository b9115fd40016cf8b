package simulation

import (
	"container/heap"
	"time"
)

// events is a queue of events, ordered by time and then by the order of their creation.
type events struct {
	now   time.Duration
	made  uint64
	queue eventHeap
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

// after schedules do, d from now.
func (e *events) after(d time.Duration, do func()) {
	e.made++
	heap.Push(&e.queue, event{e.now + d, e.made, do})
}

// step runs the next event, and reports whether there was one up to until.
func (e *events) step(until time.Duration) bool {
	if len(e.queue) == 0 || e.queue[0].at > until {
		return false
	}
	next := heap.Pop(&e.queue).(event)
	e.now = next.at
	next.do()
	return true
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
