package session

import (
	"context"
	"iter"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// workers is the number of concurrent reconciles. They mostly wait for the API server.
const workers = 16

// SetupWithManager registers the controller of sessions; scheduler enqueues those on which
// it has decided.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, scheduler source.Source) error {
	if err := (observer{r}).observe(ctx, mgr); err != nil {
		return err
	}
	leading.Store(r)
	r.settled = bulk.NewFeed[reconcile.Request]()
	w := watches{r}
	return ctrl.NewControllerManagedBy(mgr).
		Named("vdisession").
		Watches(&v1alpha1.VDISession{}, w.sessions()).
		Watches(&v1alpha1.VDITemplate{}, enqueueCounted(scheduling.EventTemplate, w.ofTemplate), builder.WithPredicates(edited)).
		Watches(&v1alpha1.PlacementPolicy{}, enqueueCounted(scheduling.EventPolicy, w.ofPolicy), builder.WithPredicates(edited)).
		Watches(&v1alpha1.VDIHome{}, enqueueCounted(scheduling.EventHome, w.ofHome), builder.WithPredicates(freed)).
		WatchesRawSource(scheduler).
		WatchesRawSource(source.Func(w.ofMembers)).
		WatchesRawSource(r.settled).
		WithOptions(w.options()).
		Complete(r)
}

// watches finds the sessions that a change of another object may help.
type watches struct{ *Reconciler }

func (w watches) options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers, RateLimiter: backoff.Limiter[reconcile.Request](),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return bulk.NewQueue(name, limiter, w.urgent)
		},
	}
}

// urgent reports whether a user waits for a session, or the scheduler for its next pass: those do not wait
// behind all sessions that a lost member had, or that a new leader lists.
func (w watches) urgent(r reconcile.Request) bool {
	s := w.Cached.Get(r.NamespacedName)
	return s != nil && status.Starts(s) || w.Scheduler.Answered(r.NamespacedName)
}

// sessions enqueues sessions that change. Of those that a new leader lists, the settled ones are
// reconciled at a limited rate.
func (w watches) sessions() handler.EventHandler {
	each := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.IsInInitialList && status.Settled(e.Object.(*v1alpha1.VDISession)) {
				w.EnqueueSettled(client.ObjectKeyFromObject(e.Object))
				return
			}
			each.Create(ctx, e, queue)
		},
		UpdateFunc: each.Update, DeleteFunc: each.Delete, GenericFunc: each.Generic,
	}
}

// ofTemplate returns the sessions that wait for a change of a template.
func (w watches) ofTemplate(_ context.Context, t client.Object) []reconcile.Request {
	return requestsFor(w.Cached.By(index.Template, t.GetName()))
}

// ofPolicy returns the sessions whose placement may change with an edit of a policy.
// Each pass determines whether the policy governs its session.
func (w watches) ofPolicy(_ context.Context, _ client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, phase := range index.Phases {
		out = append(out, requestsFor(w.Cached.By(index.Phase, string(phase)))...)
	}
	// Those of a lost member still have phase Running.
	for _, session := range w.Scheduler.Pending(func(req *scheduling.Request) bool { return req.Placement.Failover }) {
		out = append(out, reconcile.Request{NamespacedName: session})
	}
	return out
}

// freed passes updates that release a home or remove entries of its status.leftBehind,
// and the deletion of a record.
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
func (w watches) ofHome(_ context.Context, h client.Object) (out []reconcile.Request) {
	for s := range w.Cached.By(index.Home, trim.Bucket(h.GetName())) {
		if home.Key(s) == client.ObjectKeyFromObject(h) {
			out = append(out, requestFor(s))
		}
	}
	return out
}

// edited passes changes of an object's spec, and its deletion: new counts in a status
// enqueue no session.
var edited = predicate.GenerationChangedPredicate{}

// enqueueCounted enqueues the sessions that a change may help, and counts them by the event.
func enqueueCounted(event string, sessions handler.MapFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		out := sessions(ctx, o)
		scheduling.Requeued(event, len(out))
		return out
	})
}

func requestsFor(sessions iter.Seq[*v1alpha1.VDISession]) (out []reconcile.Request) {
	for s := range sessions {
		out = append(out, requestFor(s))
	}
	return out
}

func requestFor(s *v1alpha1.VDISession) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)}
}

// ofMembers enqueues the sessions of a member that has changed.
func (w watches) ofMembers(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	changed := workqueue.NewTyped[string]()
	context.AfterFunc(ctx, changed.ShutDown)
	w.Fleet.Listen(func(c member.Change) {
		if c.Kind == member.MemberChanged {
			changed.Add(c.Member)
		}
	})
	go func() {
		for {
			name, end := changed.Get()
			if end {
				return
			}
			w.enqueueMember(name, queue)
			changed.Done(name)
		}
	}()
	return nil
}

// enqueueMember enqueues the sessions of a member; at a limited rate those for which there may be
// nothing to do, unless they may have to leave it.
func (w watches) enqueueMember(name string, queue workqueue.TypedInterface[reconcile.Request]) {
	ref, known := w.Fleet.RefOf(name)
	lost := !known || w.Fleet.State(ref.UID).Health == health.Unreachable
	for s := range w.Cached.By(index.Member, name) {
		if lost || !status.Settled(s) {
			queue.Add(requestFor(s))
		} else {
			w.EnqueueSettled(client.ObjectKeyFromObject(s))
		}
	}
}
