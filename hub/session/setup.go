package session

import (
	"context"

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
	w := &watches{Reconciler: r}
	return ctrl.NewControllerManagedBy(mgr).
		Named("vdisession").
		For(&v1alpha1.VDISession{}).
		Watches(&v1alpha1.VDITemplate{}, enqueueCounted(scheduling.EventTemplate, w.ofTemplate), builder.WithPredicates(edited)).
		Watches(&v1alpha1.PlacementPolicy{}, enqueueCounted(scheduling.EventPolicy, w.ofPolicy), builder.WithPredicates(edited)).
		Watches(&v1alpha1.VDIHome{}, enqueueCounted(scheduling.EventHome, w.ofHome), builder.WithPredicates(freed)).
		WatchesRawSource(scheduler).
		WatchesRawSource(source.Func(w.ofMembers)).
		WithOptions(w.options()).
		Complete(r)
}

// watches finds the sessions that a change of another object may help.
type watches struct {
	*Reconciler
	queue *bulk.Queue[reconcile.Request]
}

func (w *watches) options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers, RateLimiter: backoff.Limiter[reconcile.Request](),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			w.queue = bulk.New(name, limiter)
			return w.queue
		},
	}
}

// ofTemplate returns the sessions that wait for a change of a template.
func (w *watches) ofTemplate(ctx context.Context, t client.Object) []reconcile.Request {
	return w.listed(ctx, anySession, client.MatchingFields{index.Template: t.GetName()})
}

// ofPolicy returns the sessions whose placement may change with an edit of a policy.
// Each pass determines whether the policy governs its session.
func (w *watches) ofPolicy(ctx context.Context, _ client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, phase := range index.Phases {
		out = append(out, w.listed(ctx, anySession, client.MatchingFields{index.Phase: string(phase)})...)
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
func (w *watches) ofHome(ctx context.Context, h client.Object) []reconcile.Request {
	waits := func(s *v1alpha1.VDISession) bool {
		return home.Key(s).Name == h.GetName() && !index.Scheduled(s)
	}
	return w.listed(ctx, waits, client.InNamespace(h.GetNamespace()), client.MatchingFields{index.Home: trim.Bucket(h.GetName())})
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

// listed returns the sessions of a list to which a condition applies.
func (w *watches) listed(ctx context.Context, applies func(*v1alpha1.VDISession) bool, options ...client.ListOption) []reconcile.Request {
	list := &v1alpha1.VDISessionList{}
	if err := w.Client.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		if applies(&list.Items[i]) {
			out = append(out, requestFor(&list.Items[i]))
		}
	}
	return out
}

func anySession(*v1alpha1.VDISession) bool { return true }

func requestFor(s *v1alpha1.VDISession) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)}
}

// ofMembers enqueues the sessions of a member that has changed.
func (w *watches) ofMembers(ctx context.Context, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
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
			w.enqueueMember(ctx, name)
			changed.Done(name)
		}
	}()
	return nil
}

// enqueueMember enqueues the sessions of a member; in bulk those for which there may be nothing to do,
// unless they may have to leave it.
func (w *watches) enqueueMember(ctx context.Context, name string) {
	ref, known := w.Fleet.RefOf(name)
	lost := !known || w.Fleet.State(ref.UID).Health == health.Unreachable
	list := &v1alpha1.VDISessionList{}
	if err := w.Client.List(ctx, list, client.MatchingFields{index.Member: name}, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		if s := &list.Items[i]; lost || !status.Settled(s) {
			w.queue.Add(requestFor(s))
		} else {
			w.queue.AddBulk(requestFor(s))
		}
	}
}
