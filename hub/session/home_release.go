package session

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// freed passes updates that free a home for others, or after which an operator has removed
// homes that were left behind, and the deletion of a record.
var freed = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.VDIHome), e.ObjectNew.(*v1alpha1.VDIHome)
		return before.Status.MountedByUID != "" && after.Status.MountedByUID == "" ||
			len(after.Status.LeftBehind) < len(before.Status.LeftBehind)
	},
}

// ofHome returns the sessions that may wait for a home.
func (r *Reconciler) ofHome(ctx context.Context, h client.Object) []reconcile.Request {
	list := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(h.GetNamespace()), client.MatchingFields{index.Home: h.GetName()}); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionScheduled) {
			out = append(out, requestFor(&list.Items[i]))
		}
	}
	return out
}

// freeHome releases the home of a session whose finalizer was removed by force: an operator
// has declared that nothing of it runs.
func (r *Reconciler) freeHome(ctx context.Context, s *v1alpha1.VDISession) error {
	h := &v1alpha1.VDIHome{}
	err := r.Client.Get(ctx, home.Key(s), h)
	if err != nil || h.Status.MountedByUID != s.UID {
		return client.IgnoreNotFound(err)
	}
	return home.Release(ctx, r.Client, h, nil, status.Seconds(r.Clock.Now()))
}

// releaseHome frees the home of a stopped session, once the member reports for exactly the
// desired assignment that nothing of it runs.
func (r *Reconciler) releaseHome(ctx context.Context, s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, hash string) error {
	if !home.UsesRecord(s) || status.ToRun(s) || !home.Stopped(reported, hash) {
		return nil
	}
	h := &v1alpha1.VDIHome{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Status.Home.Name}, h)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the home: %w", err)
	case h.Status.MountedByUID != s.UID || home.MayStillUse(s, h) || home.LastRun(s).Before(home.ClaimedRun(h)):
		return nil
	}
	return home.Release(ctx, r.Client, h, s, status.Seconds(r.Clock.Now()))
}
