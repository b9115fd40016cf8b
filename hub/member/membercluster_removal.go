package member

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Held are a member's sessions according to the hub.
type Held struct {
	// Placed counts those placed there, Releasing those released and not confirmed as stopped.
	Placed, Releasing int
}

// finalize keeps the MemberCluster while sessions are placed there or not confirmed as
// stopped, and announces that; done means that it may be deleted. It returns the object that is
// in the API server then.
//
// In a member that is declared fenced no stop will be confirmed: what was released there
// is lost with it, and its sessions are rescheduled first.
func (r *Reconciler) finalize(ctx context.Context, mc *v1alpha1.MemberCluster, v view) (now *v1alpha1.MemberCluster, done bool, err error) {
	if mc.DeletionTimestamp.IsZero() {
		now, err = r.addFinalizer(ctx, mc)
		return now, false, err
	}
	// Recent decisions are only in the fleet's count; those of an earlier leader may still be
	// only in the hub's cache.
	held := r.HeldIn(v1alpha1.ClusterRef{Name: mc.Name, UID: mc.UID})
	placed, all := max(held.Placed, int(v.sessions-v.releasing)), max(held.Placed+held.Releasing, int(v.sessions))
	switch fenced := v.fenced; {
	case fenced && placed > 0:
		r.keep(mc, fmt.Sprintf("it is declared fenced, and %d sessions are still placed there: it is removed once each is rescheduled or deleted; `kubectl get vdis -A` shows what they wait for", placed))
		return mc, false, nil
	case !fenced && v.fence.refusesAgent() && all > 0:
		return mc, false, nil // the declaration is about to take effect, or to be removed
	case !fenced && all > 0:
		r.keep(mc, fmt.Sprintf("%d sessions are placed there or not confirmed stopped: delete them, or drain it with `kubectl vdi drain %s`; if it is off for good, declare it fenced with `kubectl vdi fence %s`", all, mc.Name, mc.Name))
		return mc, false, nil
	}
	after := mc.DeepCopy()
	if controllerutil.RemoveFinalizer(after, v1alpha1.MemberFinalizer) {
		if err := r.Client.Patch(ctx, after, locked(mc)); err != nil {
			return mc, false, client.IgnoreNotFound(fmt.Errorf("removing the finalizer: %w", err))
		}
	}
	return after, true, nil
}

// addFinalizer returns the object that is in the API server then.
func (r *Reconciler) addFinalizer(ctx context.Context, mc *v1alpha1.MemberCluster) (now *v1alpha1.MemberCluster, err error) {
	if controllerutil.ContainsFinalizer(mc, v1alpha1.MemberFinalizer) {
		return mc, nil
	}
	after := mc.DeepCopy()
	controllerutil.AddFinalizer(after, v1alpha1.MemberFinalizer)
	if err := r.Client.Patch(ctx, after, locked(mc)); err != nil {
		return mc, fmt.Errorf("adding the finalizer: %w", err)
	}
	return after, nil
}

// blockage is a cause that blocks the removal of a member.
type blockage struct {
	member types.UID
	fenced bool
}

// keep announces, once for each cause, why a member that is being removed still exists.
func (r *Reconciler) keep(mc *v1alpha1.MemberCluster, why string) {
	cause := blockage{mc.UID, mc.Spec.Fenced != nil}
	if before, _ := r.blocked.Swap(mc.Name, cause); before != cause {
		r.Recorder.Eventf(mc, nil, "Warning", "InUse", "Remove", "%s", why)
	}
}
