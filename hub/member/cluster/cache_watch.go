package cluster

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// cacheWatch sends the changes of a cache to one informer. Undelivered changes are a set in
// which the newest wins: a slow informer costs O(sessions), and never blocks a change of
// the cache.
type cacheWatch struct {
	*watch.ProxyWatcher
	forget func(*cacheWatch)
	result chan watch.Event
	wake   chan struct{}

	mu      sync.Mutex
	pending map[types.NamespacedName]watch.Event
	order   []types.NamespacedName
}

func newCacheWatch(forget func(*cacheWatch)) *cacheWatch {
	result := make(chan watch.Event)
	return &cacheWatch{
		ProxyWatcher: watch.NewProxyWatcher(result), forget: forget, result: result,
		wake: make(chan struct{}, 1), pending: map[types.NamespacedName]watch.Event{},
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
			case <-w.StopChan():
				return
			}
		}
		select {
		case w.result <- e:
		case <-w.StopChan():
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
	w.ProxyWatcher.Stop()
	w.forget(w)
}
