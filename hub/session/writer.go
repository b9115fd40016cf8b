package session

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// writer writes sessions that no other client has written since they were read, and
// records the resulting versions.
type writer struct{ *Reconciler }

func (r *Reconciler) writer() writer { return writer{r} }

// status writes a status, if no other client has written the session since it was read,
// and records the resulting version. The API server ignores the rest of an update of a status, which
// the hub's cache does not have whole; a patch would cost it and the hub a comparison of the object.
func (w writer) status(ctx context.Context, before, after *v1alpha1.VDISession) error {
	if err := w.Client.Status().Update(ctx, after); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	w.memory.Wrote(after)
	logTransitions(ctx, before, after, w.Clock.Now())
	traces{w.Orders.Trace}.wrote(before, after, w.Clock.Now())
	return nil
}

// keepFinalizer adds the finalizer before anything of the session is placed. It patches the
// metadata alone: an update would also rewrite the user's spec, in the hub's encoding.
func (w writer) keepFinalizer(ctx context.Context, before, after *v1alpha1.VDISession) (*v1alpha1.VDISession, error) {
	s := before.DeepCopy()
	if !controllerutil.AddFinalizer(s, v1alpha1.Finalizer) {
		return before, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.Client.Patch(ctx, s, patch); err != nil {
		return nil, fmt.Errorf("adding the finalizer: %w", err)
	}
	w.memory.Wrote(s)
	s.ObjectMeta.DeepCopyInto(&after.ObjectMeta)
	return s, nil
}

// endMove removes the annotation that requests a session's move.
func (w writer) endMove(ctx context.Context, s *v1alpha1.VDISession) error {
	after := s.DeepCopy()
	delete(after.Annotations, v1alpha1.AnnotationMove)
	if err := w.Client.Patch(ctx, after, client.MergeFromWithOptions(s, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("removing the annotation %s: %w", v1alpha1.AnnotationMove, err)
	}
	w.memory.Wrote(after)
	return nil
}

// removeFinalizer removes the finalizer from a session that ends.
func (w writer) removeFinalizer(ctx context.Context, s *v1alpha1.VDISession) error {
	before := s.DeepCopy()
	controllerutil.RemoveFinalizer(s, v1alpha1.Finalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	w.Departures.Release(s.UID) // first: the watch may report the end before the response
	if err := w.Client.Patch(ctx, s, patch); err != nil {
		w.Departures.Keep(s.UID)
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}
