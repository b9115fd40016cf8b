package children

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// Remove deletes an object with its grace period: once, and never another object of the same
// name. The API server deletes a Pod without a node immediately, even while it is bound and
// started: such a Pod is deleted only if it is unchanged.
func (k Kind[T]) Remove(ctx context.Context, s *Set, o T) error {
	if pod, ok := client.Object(o).(*corev1.Pod); ok && pod.Spec.NodeName == "" {
		return k.RemoveUnchanged(ctx, s, o)
	}
	return s.remove(ctx, k.Name, o, client.Preconditions{UID: ptr.To(o.GetUID())})
}

// RemoveUnchanged deletes an object if it is as the cache shows it, and otherwise requeues.
func (k Kind[T]) RemoveUnchanged(ctx context.Context, s *Set, o T) error {
	return s.remove(ctx, k.Name, o, client.Preconditions{UID: ptr.To(o.GetUID()), ResourceVersion: ptr.To(o.GetResourceVersion())})
}

func (s *Set) remove(ctx context.Context, kind string, o client.Object, preconditions client.Preconditions) error {
	memory := s.Memory.of(kind)
	removed, known := memory.removed[o.GetUID()]
	if o.GetDeletionTimestamp() != nil || known && s.Now.Sub(removed) < CacheDelay {
		s.RequeueWithin(CacheDelay)
		return nil
	}
	err := s.Write(kind, "delete", func() error { return s.Client.Delete(ctx, o, preconditions) })
	switch {
	case apierrors.IsConflict(err) && preconditions.ResourceVersion != nil:
		s.RequeueWithin(ConflictRetry)
		return nil
	case denied.Is(err) && !apierrors.IsNotFound(err):
		s.DenyRemoval(ctx, kind, fmt.Errorf("deleting %s %s: %w", kind, o.GetName(), err))
		return nil
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		return fmt.Errorf("deleting %s %s: %w", kind, o.GetName(), err)
	}
	memory.removed[o.GetUID()] = s.Now
	memory.created = creation{}
	s.RequeueWithin(CacheDelay)
	log.FromContext(ctx).V(1).Info("Deleted a child", "kind", kind, "name", o.GetName())
	return nil
}
