package session

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// workers is the number of concurrent reconciles. They mostly wait for the API server.
const workers = 16

// SetupWithManager registers the controller of sessions; scheduler enqueues those on which
// it has decided.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, scheduler source.Source) error {
	if err := r.observe(ctx, mgr); err != nil {
		return err
	}
	leading.Store(r)
	return ctrl.NewControllerManagedBy(mgr).
		Named("vdisession").
		For(&v1alpha1.VDISession{}).
		Watches(&v1alpha1.VDITemplate{}, calling(scheduling.EventTemplate, r.ofTemplate), builder.WithPredicates(edited)).
		Watches(&v1alpha1.PlacementPolicy{}, calling(scheduling.EventPolicy, r.ofPolicy), builder.WithPredicates(edited)).
		Watches(&v1alpha1.VDIHome{}, calling(scheduling.EventHome, r.ofHome), builder.WithPredicates(freed)).
		WatchesRawSource(scheduler).
		WatchesRawSource(source.Func(r.followMembers)).
		WatchesRawSource(source.Func(r.feed.start)).
		WithOptions(r.options()).
		Complete(r)
}

// options of the controller of sessions.
func (r *Reconciler) options() controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: backoff.Limiter[reconcile.Request]()}
}

// observe counts sessions for their members, from the hub's cache.
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

// changed counts a session that the watch shows changed. A session that was deleted and
// created again under its name while the watch was interrupted also arrives as a change:
// how the earlier one ended is unknown.
func (r *Reconciler) changed(before, after any) {
	was, ok := before.(*v1alpha1.VDISession)
	is, same := after.(*v1alpha1.VDISession)
	if ok && same && was.UID != is.UID {
		key := client.ObjectKeyFromObject(was).String()
		r.seen(toolscache.DeletedFinalStateUnknown{Key: key, Obj: was}, true, false)
	}
	r.seen(after, false, false)
}

// seen counts a session as the watch shows it, and removes one that is gone. leads is set
// if this replica leads.
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
		r.Departures.Observe(s, r.Fleet.Gone)
	case gone:
		r.Departures.Keep(s.UID)
	}
	r.Fleet.Observe(s, gone)
	for _, u := range r.drains.Observe(s, gone) {
		r.showDrain(u)
	}
	if gone {
		r.memory.Forget(s.UID)
	} else if meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionAssigned) {
		r.memory.Taken(s.UID)
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

// ofTemplate returns the sessions that wait for a change of a template.
func (r *Reconciler) ofTemplate(ctx context.Context, t client.Object) []reconcile.Request {
	list := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{index.Template: t.GetName()}); err != nil {
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

// ofPolicy returns the sessions whose placement may change with an edit of a policy: which
// of them it governs then is only known for each by itself.
func (r *Reconciler) ofPolicy(ctx context.Context, _ client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, phase := range []v1alpha1.SessionPhase{v1alpha1.PhasePending, v1alpha1.PhaseFailed} {
		out = append(out, r.listed(ctx, client.MatchingFields{index.Phase: string(phase)})...)
	}
	// Those whose member is lost are Running as far as is known.
	for _, session := range r.Scheduler.Pending(func(req *scheduling.Request) bool { return req.Placement.Failover }) {
		out = append(out, reconcile.Request{NamespacedName: session})
	}
	return out
}

// edited passes changes of an object's spec, and its end: new counts in a status enqueue no
// session.
var edited = predicate.GenerationChangedPredicate{}

// calling enqueues the sessions that a change may help, and counts them.
func calling(by string, whom handler.MapFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		out := whom(ctx, o)
		scheduling.Requeued(by, len(out))
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
