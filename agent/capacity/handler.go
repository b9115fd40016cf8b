package capacity

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// handler applies each event of a kind to the model.
func handler[T any](set, remove func(*Model, T), w *Watcher) cache.ResourceEventHandler {
	apply := func(do func(*Model, T), o any) {
		if typed, ok := o.(T); ok {
			w.update(func(m *Model) { do(m, typed) })
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { apply(set, o) },
		UpdateFunc: func(_, o any) { apply(set, o) },
		DeleteFunc: func(o any) { apply(remove, final(o)) },
	}
}

// always reads all objects of a kind at each event. A lister reads memory: it fails only
// because of a bug, which is then logged.
func always(w *Watcher, read func(*Model) error) cache.ResourceEventHandler {
	apply := func() {
		w.update(func(m *Model) {
			if err := read(m); err != nil {
				utilruntime.HandleError(err)
			}
		})
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { apply() },
		UpdateFunc: func(any, any) { apply() },
		DeleteFunc: func(any) { apply() },
	}
}
