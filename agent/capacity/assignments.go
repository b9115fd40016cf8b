package capacity

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	for uid, key := range w.overdue() {
		var a v1alpha1.SessionAssignment
		err := w.options.Assignments.Get(ctx, key, &a)
		if err == nil && a.UID == uid || client.IgnoreNotFound(err) != nil {
			continue
		}
		w.update(func(m *Model) {
			delete(w.ahead, uid)
			m.DeleteAssignment(uid)
		})
	}
}

// overdue are the assignments that were ahead of the cache at the last
// recheck already.
func (w *Watcher) overdue() map[types.UID]types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[types.UID]types.NamespacedName{}
	for uid, known := range w.ahead {
		if known.checked {
			out[uid] = known.key
		}
		known.checked = true
	}
	return out
}

// final is the object that a deletion is about.
func final(o any) any {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return o
}
