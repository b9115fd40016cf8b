package session

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// finalize shows that a session is Terminating, and lets it go once no member
// may still run something of it. The MemberReconciler withdraws and, as a
// rule, removes the finalizer itself when the last member says Stopped.
func (r *Reconciler) finalize(ctx context.Context, s *v1alpha1.VDISession) error {
	if !controllerutil.ContainsFinalizer(s, v1alpha1.Finalizer) {
		return nil
	}
	if len(outstanding(s)) == 0 {
		return letGo(ctx, r.Client, s)
	}
	before := s.DeepCopy()
	summarise(s, nil, r.Clock.Now())
	if equality.Semantic.DeepEqual(before.Status, s.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.patchStatus(ctx, before, s))
}

// letGo removes the finalizer from a session of which nothing is outstanding.
// The lock makes sure that this is judged from what is stored.
func letGo(ctx context.Context, c client.Client, s *v1alpha1.VDISession) error {
	before := s.DeepCopy()
	if !controllerutil.RemoveFinalizer(s, v1alpha1.Finalizer) {
		return nil // somebody else's holds it
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, s, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("removing the finalizer: %w", err))
	}
	return nil
}
