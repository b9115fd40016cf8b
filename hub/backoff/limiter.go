package backoff

import (
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	// first is the wait before the first retry of an item; each failure after it
	// doubles the wait, up to most.
	first = 50 * time.Millisecond
	most  = 30 * time.Second
)

// Limiter returns a rate limiter that delays each item by its own failures alone.
// controller-runtime's default also grants all items of a controller together 10
// retries a second: after an outage of the API server of a few seconds, during which
// thousands of sessions fail, the last one would be retried minutes later, and no
// event brings it up before.
func Limiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](first, most)
}
