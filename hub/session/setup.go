package session

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
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
	"github.com/vdi-fleet/vdi-fleet/hub/fleet"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// workers of each controller. They wait for the API server most of the time;
// decisions are serialised by the fleet's lock.
const workers = 16

// SetupWithManager registers the controller of sessions.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.observe(ctx, mgr); err != nil {
		return err
	}
	lineMetrics.of(r)
	return ctrl.NewControllerManagedBy(mgr).
		Named("vdisession").
		For(&v1alpha1.VDISession{}, builder.WithPredicates(r.turns().ranked())).
		Watches(&v1alpha1.VDITemplate{}, calling(calledByTemplate, r.ofTemplate), builder.WithPredicates(edited)).
		Watches(&v1alpha1.PlacementPolicy{}, calling(calledByPolicy, r.ofPolicy), builder.WithPredicates(edited)).
		Watches(&v1alpha1.VDIHome{}, calling(calledByHome, r.ofHome), builder.WithPredicates(freed)).
		WatchesRawSource(source.Func(r.wake)).
		WatchesRawSource(source.Func(r.callLeavers)).
		WithOptions(r.options()).
		Complete(r)
}

// options of the controller of sessions.
func (r *Reconciler) options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers, NewQueue: r.turns().workqueue, RateLimiter: backoff.Limiter[reconcile.Request](),
	}
}

// observe counts sessions for the members that hold them, from the hub's cache.
func (r *Reconciler) observe(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.VDISession{})
	if err != nil {
		return fmt.Errorf("watching sessions: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.seen(obj, false, false) },
		UpdateFunc: r.changed,
		DeleteFunc: func(obj any) { r.seen(obj, true, closed(mgr.Elected())) },
	})
	if err != nil {
		return fmt.Errorf("watching sessions: %w", err)
	}
	return nil
}

// changed counts a session that the watch shows changed. One that was deleted and
// created again under its name while the watch was interrupted comes as a change, too:
// the earlier one is gone, and nobody saw how.
func (r *Reconciler) changed(before, after any) {
	was, ok := before.(*v1alpha1.VDISession)
	is, same := after.(*v1alpha1.VDISession)
	if ok && same && was.UID != is.UID {
		key := client.ObjectKeyFromObject(was).String()
		r.seen(toolscache.DeletedFinalStateUnknown{Key: key, Obj: was}, true, false)
	}
	r.seen(after, false, false)
}

// seen counts a session as the watch shows it, and forgets one that is gone. leads is
// whether this replica leads.
func (r *Reconciler) seen(obj any, gone, leads bool) {
	last, absent := obj.(toolscache.DeletedFinalStateUnknown)
	if absent {
		obj = last.Obj
	}
	s, ok := obj.(*v1alpha1.VDISession)
	if !ok {
		return
	}
	// An absence from a list is no deletion, and a replica that does not lead would
	// never get its members' confirmation.
	switch {
	case gone && !absent && leads:
		r.departed.observe(s, r.Fleet.Gone)
	case gone:
		r.departed.keep(s.UID)
	}
	r.Fleet.Observe(s, gone)
	r.seeLeaver(s, gone)
	if gone {
		r.given.forget(s.UID)
		r.written.forget(s.UID)
		r.forcing.forget(s.UID)
		r.resends.forget(s.UID)
		r.moves.forget(s.UID)
		r.lost.found(s.UID)
	}
	if gone || meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionAssigned) {
		r.refusals.forget(s.UID)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ofTemplate are the sessions that wait for a template to change.
func (r *Reconciler) ofTemplate(ctx context.Context, t client.Object) []reconcile.Request {
	list := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{indexTemplate: t.GetName()}); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if s := &list.Items[i]; s.Status.Placement == nil || status.Retrying(s) {
			out = append(out, requestFor(&list.Items[i]))
		}
	}
	return out
}

// ofPolicy are the sessions that may be placed otherwise after a policy was
// edited: which it governs then is only known of each by itself.
func (r *Reconciler) ofPolicy(ctx context.Context, _ client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, phase := range []v1alpha1.SessionPhase{v1alpha1.PhasePending, v1alpha1.PhaseFailed} {
		out = append(out, r.listed(ctx, client.MatchingFields{indexPhase: string(phase)})...)
	}
	// Those whose member is lost are Running as far as anybody knows.
	return append(out, r.waiting().everybody(func(q *question) bool { return q.request.Failover })...)
}

// edited passes on what changes an object's spec, or ends it: a status that is
// counted anew calls nobody.
var edited = predicate.GenerationChangedPredicate{}

// calling enqueues whom a change may help, and counts them.
func calling(by string, whom handler.MapFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		out := whom(ctx, o)
		wakeUps.WithLabelValues(by).Add(float64(len(out)))
		return out
	})
}

func (r *Reconciler) listed(ctx context.Context, fields client.MatchingFields) []reconcile.Request {
	list := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, list, fields); err != nil {
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, requestFor(&list.Items[i]))
	}
	return out
}

func requestFor(s *v1alpha1.VDISession) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)}
}

// SetupWithManager registers the controller of members' assignments.
func (r *MemberReconciler) SetupWithManager(mgr mcmanager.Manager) error {
	sessions := source.TypedKind(mgr.GetLocalManager().GetCache(), &v1alpha1.VDISession{},
		mchandler.TypedEnqueueRequestsFromMapFuncWithClusterPreservation(
			func(_ context.Context, s *v1alpha1.VDISession) []mcreconcile.Request { return requestsOf(s) }))
	secrets := source.TypedKind(mgr.GetLocalManager().GetCache(), &corev1.Secret{},
		mchandler.TypedEnqueueRequestsFromMapFuncWithClusterPreservation(r.ofSecret))
	return mcbuilder.ControllerManagedBy(mgr).
		Named("assignment").
		For(&v1alpha1.SessionAssignment{}).
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

// ofSecret are the assignments with which a Secret travels.
func (r *MemberReconciler) ofSecret(ctx context.Context, secret *corev1.Secret) []mcreconcile.Request {
	if secret.Labels[v1alpha1.LabelSecret] != v1alpha1.SecretDistribute {
		return r.ofAccessSecret(ctx, secret)
	}
	if secret.Namespace != r.Revisions.Namespace {
		return nil
	}
	revisions, err := r.Revisions.naming(ctx, secret.Name)
	if err != nil {
		return nil
	}
	var out []mcreconcile.Request
	for _, revision := range revisions {
		list := &v1alpha1.VDISessionList{}
		if err := r.Client.List(ctx, list, client.MatchingFields{indexRevision: revision}, client.UnsafeDisableDeepCopy); err != nil {
			return nil
		}
		for i := range list.Items {
			out = append(out, requestsOf(&list.Items[i])...)
		}
	}
	return out
}

func (r *MemberReconciler) ofAccessSecret(ctx context.Context, secret *corev1.Secret) []mcreconcile.Request {
	r.Secrets.Forget(client.ObjectKeyFromObject(secret))
	s, err := byAssignment(ctx, r.Client, client.ObjectKeyFromObject(secret))
	if err != nil || s == nil {
		return nil
	}
	return requestsOf(s)
}

// requestsOf are the assignments that a session concerns: one in each member
// that holds it or may still do so.
func requestsOf(s *v1alpha1.VDISession) []mcreconcile.Request {
	var out []mcreconcile.Request
	for _, o := range status.Outstanding(s) {
		out = append(out, memberRequest(o.ClusterName, s.Namespace, v1alpha1.AssignmentName(s.Name, s.UID)))
	}
	return out
}

func memberRequest(cluster, namespace, name string) mcreconcile.Request {
	return mcreconcile.Request{
		Request:     reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}},
		ClusterName: multicluster.ClusterName(cluster),
	}
}

// connected enqueues, on every connect of a member, what is placed there and
// what it reports: requests for a member that was away were dropped.
func (r *MemberReconciler) connected(ctx context.Context, q workqueue.TypedRateLimitingInterface[mcreconcile.Request]) error {
	r.Fleet.Listen(func(c fleet.Change) {
		if c.Kind != fleet.MemberConnected {
			return
		}
		go r.enqueueMember(ctx, q, c.Member)
	})
	return nil
}

// departures enqueues sessions that were deleted without their finalizer. The watch on
// sessions may enqueue them before they are noted as such.
func (r *MemberReconciler) departures(_ context.Context, q workqueue.TypedRateLimitingInterface[mcreconcile.Request]) error {
	r.Sessions.departed.listen(func(requests []mcreconcile.Request) {
		for _, request := range requests {
			q.Add(request)
		}
	})
	return nil
}

func (r *MemberReconciler) enqueueMember(ctx context.Context, q workqueue.TypedRateLimitingInterface[mcreconcile.Request], member string) {
	placed := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, placed, client.MatchingFields{indexMember: member}); err == nil {
		for i := range placed.Items {
			s := &placed.Items[i]
			q.Add(memberRequest(member, s.Namespace, v1alpha1.AssignmentName(s.Name, s.UID)))
		}
	}
	if ref, known := r.Fleet.RefOf(member); known {
		for _, left := range r.Sessions.departed.in(ref.UID) {
			q.Add(memberRequest(member, left.Namespace, left.Name))
		}
	}
	cl, err := r.Members.Get(ctx, multicluster.ClusterName(member))
	if err != nil {
		return
	}
	reported := &v1alpha1.SessionAssignmentList{}
	if err := cl.GetClient().List(ctx, reported); err != nil {
		return
	}
	for i := range reported.Items {
		q.Add(memberRequest(member, reported.Items[i].Namespace, reported.Items[i].Name))
	}
}
