package bulk

import (
	"k8s.io/client-go/util/workqueue"
)

// NewQueue returns the queue of a controller, with the given name in its metrics. Items that somebody waits
// for, as waited reports when they are added, take turns with the others: neither waits behind many of the
// other kind. waited is called with the queue's lock held.
func NewQueue[T comparable](name string, limiter workqueue.TypedRateLimiter[T], waited func(T) bool) workqueue.TypedRateLimitingInterface[T] {
	turns := &turns[T]{waited: waited, lines: [2]workqueue.Queue[T]{workqueue.DefaultQueue[T](), workqueue.DefaultQueue[T]()}}
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
			Name:  name,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: turns}),
		}),
	})
}

// turns is two lines that take turns (workqueue.Queue, which calls it with its lock held).
type turns[T comparable] struct {
	waited func(T) bool
	// lines are that of items that somebody waits for, and that of the others.
	lines [2]workqueue.Queue[T]
	// next is the line whose turn it is.
	next int
}

// Touch does nothing: an item that is added again keeps its place.
func (t *turns[T]) Touch(T) {}

func (t *turns[T]) Push(item T) {
	line := 1
	if t.waited(item) {
		line = 0
	}
	t.lines[line].Push(item)
}

func (t *turns[T]) Len() int { return t.lines[0].Len() + t.lines[1].Len() }

func (t *turns[T]) Pop() T {
	line := t.next
	if t.lines[line].Len() == 0 {
		line = 1 - line
	}
	t.next = 1 - line
	return t.lines[line].Pop()
}
