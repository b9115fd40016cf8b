package access

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

const (
	// indexRole finds a user's sessions by the bucket of the name of the user's Role.
	indexRole = "role"
	// workers wait for the API server most of the time: it checks that the hub grants no more than
	// it may itself by consistent lists of all RBAC objects, which take 0.1 s.
	workers = 8
)

// ours selects the Roles and RoleBindings that the hub created.
var ours = client.MatchingLabels{v1alpha1.LabelUserRole: "true"}

// SetupWithManager registers the controller, and its index of sessions by user.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := r.Sessions.Index(indexRole, func(s *v1alpha1.VDISession) []string { return []string{trim.Bucket(Name(s.Spec.User))} })
	if err != nil {
		return err
	}
	listed := bulk.NewFeed[reconcile.Request]()
	return ctrl.NewControllerManagedBy(mgr).
		Named("userrole").
		Watches(&rbacv1.Role{}, enqueue(itself, listed)).
		Watches(&rbacv1.RoleBinding{}, enqueue(itself, listed)).
		Watches(&v1alpha1.VDISession{}, enqueue(roleOf, listed), builder.WithPredicates(granted)).
		WatchesRawSource(listed).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: backoff.Limiter[reconcile.Request]()}).
		Complete(r)
}

// Cached selects the Roles or RoleBindings in the hub's cache: those that it created, in the
// namespaces that it serves; none: in all.
func Cached(served []string) cache.ByObject {
	cached := cache.ByObject{Label: labels.SelectorFromSet(labels.Set(ours)), Transform: trim.Transform(trimCached)}
	if len(served) > 0 {
		cached.Namespaces = map[string]cache.Config{}
		for _, namespace := range served {
			cached.Namespaces[namespace] = cache.Config{}
		}
	}
	return cached
}

// trimCached makes the objects of all users share what they have in common.
func trimCached(o client.Object) {
	trim.Metadata(o)
	switch o := o.(type) {
	case *rbacv1.Role:
		for i := range o.Rules {
			r := &o.Rules[i]
			r.APIGroups, r.Resources, r.Verbs = trim.List(r.APIGroups), trim.List(r.Resources), trim.List(r.Verbs)
		}
	case *rbacv1.RoleBinding:
		trim.Strings(&o.RoleRef.APIGroup, &o.RoleRef.Kind)
		for i := range o.Subjects {
			trim.Strings(&o.Subjects[i].APIGroup, &o.Subjects[i].Kind)
		}
	}
}

// enqueue enqueues the Role of an object that changes. Nearly all of those that a new leader lists are as they
// should be: they are reconciled at a limited rate, unless a user waits for the session.
func enqueue(role func(client.Object) reconcile.Request, listed *bulk.Feed[reconcile.Request]) handler.EventHandler {
	each := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{role(o)}
	})
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			s, ok := e.Object.(*v1alpha1.VDISession)
			if waited := ok && status.Starts(s); e.IsInInitialList && !waited {
				listed.Add(role(e.Object))
				return
			}
			each.Create(ctx, e, queue)
		},
		UpdateFunc: each.Update, DeleteFunc: each.Delete, GenericFunc: each.Generic,
	}
}

func itself(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

func roleOf(o client.Object) reconcile.Request {
	s := o.(*v1alpha1.VDISession)
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: s.Namespace, Name: Name(s.Spec.User)}}
}

// granted selects the changes of sessions that change what a user may read. Roles without
// sessions are enqueued by the watch on Roles.
var granted = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return secretOf(e.Object.(*v1alpha1.VDISession)) != "" },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return secretOf(e.ObjectOld.(*v1alpha1.VDISession)) != secretOf(e.ObjectNew.(*v1alpha1.VDISession))
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}
