package bulk

import (
	"context"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// Settled sessions, their assignments and users' Roles are reconciled at this rate when nothing is known to be
// left to do for them: PerSecond after the first AtOnce, which are more than most members have. When all agents
// of a large fleet connect at once, or another leader lists all sessions, new sessions would wait behind
// all others, and the renewals of leases for the hub's CPU.
const (
	PerSecond = 150
	AtOnce    = 200
)

// Feed passes on items at a limited rate, each once while it waits.
type Feed[T comparable] struct{ waiting workqueue.TypedInterface[T] }

// NewFeed returns a feed that has no items.
func NewFeed[T comparable]() *Feed[T] { return &Feed[T]{workqueue.NewTyped[T]()} }

// Add adds an item, unless it waits already.
func (f *Feed[T]) Add(item T) { f.waiting.Add(item) }

// Len returns how many items wait.
func (f *Feed[T]) Len() int { return f.waiting.Len() }

// Run passes items on until the context ends. It is called once. pass calls wait before all that it
// does for an item, which may be many things, and ends when that returns false, as the context has ended.
func (f *Feed[T]) Run(ctx context.Context, pass func(item T, wait func() bool)) {
	defer context.AfterFunc(ctx, f.waiting.ShutDown)()
	limit := rate.NewLimiter(PerSecond, AtOnce)
	wait := func() bool { return limit.Wait(ctx) == nil }
	for {
		item, end := f.waiting.Get()
		if end {
			return
		}
		f.waiting.Done(item)
		pass(item, wait)
	}
}

// Start passes items on to the queue of a controller (source.TypedSource).
func (f *Feed[T]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[T]) error {
	go f.Run(ctx, func(item T, wait func() bool) {
		if wait() {
			queue.Add(item)
		}
	})
	return nil
}
