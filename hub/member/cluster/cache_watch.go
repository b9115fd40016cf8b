package cluster

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// cacheWatch sends the changes of a cache to one informer. Undelivered changes are a set in
// which the newest wins: a slow informer costs O(sessions), and never blocks a change of
// the cache.
type cacheWatch struct {
	forget func(*cacheWatch)
	result chan watch.Event
	wake   chan struct{}
	// ended is done once Stop was called.
	ended context.Context
	end   context.CancelFunc

	mu      sync.Mutex
	pending map[types.NamespacedName]watch.Event
	order   []types.NamespacedName
}

func newCacheWatch(forget func(*cacheWatch)) *cacheWatch {
	ended, end := context.WithCancel(context.Background())
	return &cacheWatch{
		ended: ended, end: end,
		forget:  forget,
		result:  make(chan watch.Event),
		wake:    make(chan struct{}, 1),
		pending: map[types.NamespacedName]watch.Event{},
	}
}

func (w *cacheWatch) add(key types.NamespacedName, e watch.Event) {
	w.mu.Lock()
	if _, ok := w.pending[key]; !ok {
		w.order = append(w.order, key)
	}
	w.pending[key] = e
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *cacheWatch) pump() {
	defer close(w.result)
	for {
		e, ok := w.take()
		if !ok {
			select {
			case <-w.wake:
				continue
			case <-w.ended.Done():
				return
			}
		}
		select {
		case w.result <- e:
		case <-w.ended.Done():
			return
		}
	}
}

func (w *cacheWatch) take() (watch.Event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) == 0 {
		w.order = nil
		return watch.Event{}, false
	}
	key := w.order[0]
	w.order = w.order[1:]
	e := w.pending[key]
	delete(w.pending, key)
	return e, true
}

// Stop ends the watch.
func (w *cacheWatch) Stop() {
	w.end()
	w.forget(w)
}

func (w *cacheWatch) ResultChan() <-chan watch.Event { return w.result }
