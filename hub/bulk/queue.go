package bulk

import (
	"k8s.io/client-go/util/workqueue"
)

// NewQueue returns the queue of a controller, with the given name in its metrics. Urgent items, as urgent
// reports when they are added, are dispatched alternately with the others, so that neither are delayed by
// many of the other kind. urgent is called with the queue's lock held.
func NewQueue[T comparable](name string, limiter workqueue.TypedRateLimiter[T], urgent func(T) bool) workqueue.TypedRateLimitingInterface[T] {
	both := &alternating[T]{urgent: urgent, queues: [2]workqueue.Queue[T]{workqueue.DefaultQueue[T](), workqueue.DefaultQueue[T]()}}
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
			Name:  name,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: both}),
		}),
	})
}

// alternating is two queues that are served alternately (workqueue.Queue, which calls it with its lock held).
type alternating[T comparable] struct {
	urgent func(T) bool
	// queues are that of urgent items, and that of the others.
	queues [2]workqueue.Queue[T]
	// next is the queue to serve next.
	next int
}

// Touch does nothing: an item that is added again keeps its place.
func (a *alternating[T]) Touch(T) {}

func (a *alternating[T]) Push(item T) {
	queue := 1
	if a.urgent(item) {
		queue = 0
	}
	a.queues[queue].Push(item)
}

func (a *alternating[T]) Len() int { return a.queues[0].Len() + a.queues[1].Len() }

func (a *alternating[T]) Pop() T {
	queue := a.next
	if a.queues[queue].Len() == 0 {
		queue = 1 - queue
	}
	a.next = 1 - queue
	return a.queues[queue].Pop()
}
