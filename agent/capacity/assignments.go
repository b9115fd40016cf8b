package capacity

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func (w *Watcher) assignmentHandler() cache.ResourceEventHandler {
	set := func(o any) {
		if a, ok := o.(*v1alpha1.SessionAssignment); ok {
			w.update(func(m *Model) { w.setAssignment(m, a) })
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, o any) { set(o) },
		DeleteFunc: func(o any) {
			if a, ok := final(o).(*v1alpha1.SessionAssignment); ok {
				w.update(func(m *Model) {
					delete(w.ahead, a.UID)
					m.DeleteAssignment(a.UID)
				})
			}
		},
	}
}

// setAssignment takes what the cache says, unless it is older than what was
// counted when it was stored.
func (w *Watcher) setAssignment(m *Model, a *v1alpha1.SessionAssignment) {
	if known := w.ahead[a.UID]; known != nil {
		if a.Generation < known.generation {
			return
		}
		delete(w.ahead, a.UID)
	}
	m.SetAssignment(AssignmentOf(a))
}

// recheck forgets assignments that were counted when they were stored, and
// that the cache never came to show: they were deleted while its watch was
// broken.
func (w *Watcher) recheck(ctx context.Context) {
	informer, err := w.options.Assignments.GetInformer(ctx, &v1alpha1.SessionAssignment{})
	if err != nil {
		return // the cache is stopping, and so are we
	}
	store, ok := informer.(interface{ GetStore() cache.Store })
	if !ok {
		return
	}
	w.update(func(m *Model) {
		for uid, known := range w.ahead {
			if !known.checked {
				known.checked = true
				continue
			}
			if !holds(store.GetStore(), known.key, uid) {
				delete(w.ahead, uid)
				m.DeleteAssignment(uid)
			}
		}
	})
}

func holds(store cache.Store, key types.NamespacedName, uid types.UID) bool {
	o, exists, err := store.GetByKey(key.String())
	if err != nil || !exists {
		return false
	}
	a, ok := o.(*v1alpha1.SessionAssignment)
	return ok && a.UID == uid
}

// final is the object that a deletion is about.
func final(o any) any {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return o
}
