package session

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/nsinformer"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// watchRoutes watches the agent's HTTPRoutes in the admitted namespaces, in a separate cache:
// the manager's can't be configured for a kind that is not served yet.
func watchRoutes(mgr ctrl.Manager, made controller.Controller) (client.Reader, error) {
	routes, err := nsinformer.NewCache(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{api.LabelManagedBy: api.ManagedBy}),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, err
	}
	owner := handler.TypedEnqueueRequestForOwner[*gatewayv1.HTTPRoute](
		mgr.GetScheme(), mgr.GetRESTMapper(), &api.SessionAssignment{}, handler.OnlyControllerOwner())
	return routes, errors.Join(mgr.Add(routes), made.Watch(source.Kind(routes, &gatewayv1.HTTPRoute{}, owner)))
}

// ignoreStatus ignores changes of a child's status. The generation of its kind must change with
// its spec.
var ignoreStatus = predicate.Or(
	predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})

// claimName returns the value of claimIndex.
func claimName(o client.Object) []string {
	a, ok := o.(*api.SessionAssignment)
	if !ok || !render.HasHome(a) {
		return nil
	}
	return []string{a.Spec.Desktop.Home.ClaimName}
}

// usersOfClaim maps a claim, which has no owner, to the assignments that use it.
func (r *Reconciler) usersOfClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	return r.users(ctx, claim.GetNamespace(), client.MatchingFields{claimIndex: claim.GetName()})
}

// usersOfNamespace maps an object that the desktops of a namespace share to its assignments.
func (r *Reconciler) usersOfNamespace(ctx context.Context, shared client.Object) []reconcile.Request {
	return r.users(ctx, shared.GetNamespace(), client.MatchingLabels{})
}

// all maps any event to all assignments.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.users(ctx, "", client.MatchingLabels{})
}

// enqueueUsersOfHome enqueues the assignments that wait for the home of a deleted Pod.
func (r *Reconciler) enqueueUsersOfHome(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	claim := e.Object.GetLabels()[render.LabelHome]
	if claim == "" {
		return
	}
	for _, user := range r.users(ctx, e.Object.GetNamespace(), client.MatchingFields{claimIndex: claim}) {
		queue.Add(user)
	}
}

// users returns a request for each selected assignment of a namespace.
func (r *Reconciler) users(ctx context.Context, namespace string, selected client.ListOption) []reconcile.Request {
	var list api.SessionAssignmentList
	err := r.Client.List(ctx, &list, client.InNamespace(namespace), selected, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Listing the assignments that use an object", "namespace", namespace)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
