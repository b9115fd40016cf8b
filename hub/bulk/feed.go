package bulk

import (
	"context"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// Settled sessions and their assignments are reconciled at this rate when nothing is known to be left to
// do for them: PerSecond after the first AtOnce, which are more than most members have. When all agents
// of a large fleet connect at once, or another leader lists all sessions, new sessions would wait behind
// all others, and the renewals of leases for the hub's CPU.
const (
	PerSecond = 300
	AtOnce    = 500
)

// Feed passes on items at a limited rate, each once while it waits.
type Feed[T comparable] struct{ waiting workqueue.TypedInterface[T] }

// NewFeed returns a feed that has no items.
func NewFeed[T comparable]() *Feed[T] { return &Feed[T]{workqueue.NewTyped[T]()} }

// Add adds an item, unless it waits already.
func (f *Feed[T]) Add(item T) { f.waiting.Add(item) }

// Len returns how many items wait.
func (f *Feed[T]) Len() int { return f.waiting.Len() }

// Run passes items on until the context ends. It is called once.
func (f *Feed[T]) Run(ctx context.Context, pass func(T)) {
	defer context.AfterFunc(ctx, f.waiting.ShutDown)()
	limit := rate.NewLimiter(PerSecond, AtOnce)
	for {
		item, end := f.waiting.Get()
		if end || limit.Wait(ctx) != nil {
			return
		}
		f.waiting.Done(item)
		pass(item)
	}
}
