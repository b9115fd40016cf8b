package assignment

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// SetupWithManager registers the controller of members' assignments.
func (r *Reconciler) SetupWithManager(mgr mcmanager.Manager) error {
	sessions := source.TypedKind(mgr.GetLocalManager().GetCache(), &v1alpha1.VDISession{},
		mchandler.TypedEnqueueRequestsFromMapFuncWithClusterPreservation(
			func(_ context.Context, s *v1alpha1.VDISession) []mcreconcile.Request { return requestsOf(s) }),
		predicate.TypedFuncs[*v1alpha1.VDISession]{CreateFunc: leftToDo})
	secrets := source.TypedKind(mgr.GetLocalManager().GetCache(), &corev1.Secret{},
		mchandler.TypedEnqueueRequestsFromMapFuncWithClusterPreservation(r.ofSecret),
		predicate.TypedFuncs[*corev1.Secret]{CreateFunc: r.concerns})
	return mcbuilder.ControllerManagedBy(mgr).
		Named("assignment").
		Watches(&v1alpha1.SessionAssignment{}, r.reports).
		WatchesRawSource(sessions).
		WatchesRawSource(secrets).
		WatchesRawSource(source.TypedFunc[mcreconcile.Request](r.connected)).
		WatchesRawSource(source.TypedFunc[mcreconcile.Request](r.departures)).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{
			MaxConcurrentReconciles: workers,
			RateLimiter:             backoff.Limiter[mcreconcile.Request](),
			// multicluster-runtime passes on none of the manager's options.
			SkipNameValidation: mgr.GetLocalManager().GetControllerOptions().SkipNameValidation,
			UsePriorityQueue:   mgr.GetLocalManager().GetControllerOptions().UsePriorityQueue,
		}).
		Complete(r)
}

// reports enqueues the assignments of a member of which a report changes, and their sessions. If the
// session already shows what the member reports when it connects, both are enqueued at a limited rate,
// the assignment by connections.
func (r *Reconciler) reports(name multicluster.ClusterName, _ cluster.Cluster) mchandler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[mcreconcile.Request]
	enqueue := func(o client.Object, q queue) {
		key := client.ObjectKeyFromObject(o)
		// The session is found by the assignment's name, since a refusal does not have its name.
		if s := r.Cached.ByAssignment(key); s != nil {
			r.Sessions.Enqueue(client.ObjectKeyFromObject(s))
		}
		q.Add(memberRequest(string(name), key))
	}
	return handler.TypedFuncs[client.Object, mcreconcile.Request]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			s := r.Cached.ByAssignment(client.ObjectKeyFromObject(e.Object))
			if s != nil && status.Settled(s) && s.Status.Placement.ClusterName == string(name) && status.Shows(s, e.Object.(*v1alpha1.SessionAssignment)) {
				r.Sessions.EnqueueSettled(client.ObjectKeyFromObject(s))
				return
			}
			enqueue(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { enqueue(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { enqueue(e.Object, q) },
	}
}

// leftToDo reports whether there may be something to do for a session that is new to the cache. Settled
// ones that a new leader lists are compared when their member connects, at a limited rate.
func leftToDo(e event.TypedCreateEvent[*v1alpha1.VDISession]) bool {
	return !e.IsInInitialList || !status.Settled(e.Object)
}

// concerns reports whether a Secret that is new to the cache concerns its session. Those that a new
// leader lists do not if the session is settled: it is compared anyway, at a limited rate.
func (r *Reconciler) concerns(e event.TypedCreateEvent[*corev1.Secret]) bool {
	if !e.IsInInitialList || e.Object.Labels[v1alpha1.LabelSecret] == v1alpha1.SecretDistribute {
		return true
	}
	s := r.Cached.ByAssignment(client.ObjectKeyFromObject(e.Object))
	return s != nil && !status.Settled(s)
}

// ofSecret returns the assignments with which a Secret is sent.
func (r *Reconciler) ofSecret(ctx context.Context, secret *corev1.Secret) []mcreconcile.Request {
	if secret.Labels[v1alpha1.LabelSecret] != v1alpha1.SecretDistribute {
		return r.ofAccessSecret(secret)
	}
	if secret.Namespace != r.Orders.Secrets.Namespace {
		return nil
	}
	revisions, err := r.Orders.Revisions.Naming(ctx, secret.Name)
	if err != nil {
		return nil
	}
	var out []mcreconcile.Request
	for _, revision := range revisions {
		for s := range r.Cached.By(index.Revision, revision) {
			out = append(out, requestsOf(s)...)
		}
	}
	return out
}

func (r *Reconciler) ofAccessSecret(secret *corev1.Secret) []mcreconcile.Request {
	own := r.Orders.Secrets.Shown(secret)
	s := r.Cached.ByAssignment(client.ObjectKeyFromObject(secret))
	if s == nil {
		return nil
	}
	if !own {
		r.Sessions.Enqueue(client.ObjectKeyFromObject(s)) // which repairs it
	}
	return requestsOf(s)
}

// requestsOf returns the assignments of a session, one in each member that has it or may
// have it.
func requestsOf(s *v1alpha1.VDISession) []mcreconcile.Request {
	var out []mcreconcile.Request
	for _, o := range status.Outstanding(s) {
		out = append(out, memberRequest(o.ClusterName, KeyOf(s)))
	}
	return out
}

func memberRequest(cluster string, assignment types.NamespacedName) mcreconcile.Request {
	return mcreconcile.Request{
		Request: reconcile.Request{NamespacedName: assignment}, ClusterName: multicluster.ClusterName(cluster),
	}
}

// departures enqueues sessions that were deleted without their finalizer. The watch on
// sessions may enqueue them before they are recorded as such.
func (r *Reconciler) departures(_ context.Context, q workqueue.TypedRateLimitingInterface[mcreconcile.Request]) error {
	r.Departures.listen(q.Add)
	return nil
}
