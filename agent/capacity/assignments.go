package capacity

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func (w *Watcher) assignmentHandler() cache.ResourceEventHandler {
	return handler(w.setAssignment, func(m *Model, a *v1alpha1.SessionAssignment) {
		delete(w.assumed, a.UID)
		m.DeleteAssignment(a.UID)
	}, w)
}

// setAssignment sets an assignment from the cache, unless a newer one was counted when it
// was stored.
func (w *Watcher) setAssignment(m *Model, a *v1alpha1.SessionAssignment) {
	if known := w.assumed[a.UID]; known != nil {
		if a.Generation < known.generation {
			return
		}
		delete(w.assumed, a.UID)
	}
	m.SetAssignment(AssignmentOf(a))
}

// recheck removes stored assignments that the cache never showed: they were deleted while
// its watch was broken.
func (w *Watcher) recheck(ctx context.Context) {
	for uid, key := range w.overdue() {
		var a v1alpha1.SessionAssignment
		err := w.options.Assignments.Get(ctx, key, &a)
		if err == nil && a.UID == uid || client.IgnoreNotFound(err) != nil {
			continue
		}
		w.update(func(m *Model) {
			delete(w.assumed, uid)
			m.DeleteAssignment(uid)
		})
	}
}

// overdue returns the assignments that the cache did not show at the last recheck either.
func (w *Watcher) overdue() map[types.UID]types.NamespacedName {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[types.UID]types.NamespacedName{}
	for uid, known := range w.assumed {
		if known.checked {
			out[uid] = known.key
		}
		known.checked = true
	}
	return out
}

// deletedObject returns the object of a deletion event.
func deletedObject(o any) any {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return o
}
