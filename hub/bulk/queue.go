package bulk

import (
	"k8s.io/client-go/util/workqueue"
)

// Queue is a controller's work queue with a second lane. Items that are added in bulk, since something
// changed on which many of them may depend, wait behind the others, but have at least one turn in
// bulkShare.
type Queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	lanes *lanes[T]
}

// New returns an empty queue (controller.TypedOptions.NewQueue).
func New[T comparable](name string, limiter workqueue.TypedRateLimiter[T]) *Queue[T] {
	l := newLanes[T]()
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: l})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: queue})
	return &Queue[T]{
		workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{Name: name, DelayingQueue: delaying}), l,
	}
}

// Add adds an item, or has it no longer wait behind others.
func (q *Queue[T]) Add(item T) {
	q.lanes.mark(item, false)
	q.TypedRateLimitingInterface.Add(item)
}

// AddBulk adds an item behind others, unless it waits already. One that is being processed comes again
// behind them.
func (q *Queue[T]) AddBulk(item T) {
	q.lanes.mark(item, true)
	q.TypedRateLimitingInterface.Add(item)
}
