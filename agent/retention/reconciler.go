package retention

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// maxRequeue is the longest time between two reconciles: timers don't follow a clock that is
// set.
const maxRequeue = time.Hour

// Options of the reconcilers.
type Options struct {
	// Client reads from the manager's cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	// Recorder of events on claims.
	Recorder events.EventRecorder
	// Clock of the member.
	Clock clock.PassiveClock
	// OverdueFor is how long this process must have seen a claim overdue and unused before
	// it is deleted.
	OverdueFor time.Duration
	// UnusedFor is how long a shared object must have been marked as unused before it is
	// deleted.
	UnusedFor time.Duration
}

// SetupWithManager adds a controller for each kind to the manager, for the leader alone.
func SetupWithManager(mgr ctrl.Manager, options Options) error {
	for _, r := range []*Reconciler{Homes(options), NetworkPolicies(options), disruptionBudgets(options)} {
		if err := ctrl.NewControllerManagedBy(mgr).Named(r.name).For(r.empty()).Complete(r); err != nil {
			return fmt.Errorf("building the %s controller: %w", r.name, err)
		}
	}
	return nil
}

// kind describes the objects of one kind, and when they are deleted.
type kind struct {
	// name of the controller in logs and metrics.
	name  string
	empty func() client.Object
	// keptUntil returns when an unused object is due, by the member's clock, and false if
	// never.
	keptUntil func(client.Object) (time.Time, bool)
	// inUse reports whether an object is used, by the objects of a reader.
	inUse func(context.Context, client.Reader, client.Object) (bool, error)
	// recheck is how often a used object is checked.
	recheck time.Duration
	// marks is set if an object is marked before it is deleted.
	marks bool
	// wait is how long an object must have been due and unused, without a change.
	wait time.Duration
	// describe names a deleted object in errors.
	describe func(client.Object) string
	// deleted records a deletion.
	deleted func(context.Context, client.Object)
}

// Reconciler deletes the objects of one kind that are due and unused.
type Reconciler struct {
	Options
	kind
	// firstDue has an observation of each object that is due and unused, by its key.
	firstDue sync.Map
}

// observation is when a version of an object was first due and unused.
type observation struct {
	version string
	at      time.Time
}

// Reconcile deletes the object if it was due and unused for long enough, or requeues.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o := r.empty()
	if err := r.Client.Get(ctx, req.NamespacedName, o); err != nil {
		r.firstDue.Delete(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	end, ends := r.keptUntil(o)
	if !ends || o.GetLabels()[api.LabelManagedBy] != api.ManagedBy || o.GetDeletionTimestamp() != nil {
		r.firstDue.Delete(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if wait := end.Sub(r.Clock.Now()); wait > 0 {
		r.firstDue.Delete(req.NamespacedName)
		return ctrl.Result{RequeueAfter: min(wait, maxRequeue)}, nil
	}
	used, err := r.inUse(ctx, r.Client, o)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case used:
		r.firstDue.Delete(req.NamespacedName)
		return ctrl.Result{RequeueAfter: r.recheck}, nil
	}
	if wait := r.wait - r.dueFor(o); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if r.marks && o.GetAnnotations()[api.AnnotationLastUse] == "" {
		return ctrl.Result{RequeueAfter: r.wait}, r.mark(ctx, o)
	}
	// The cache may be behind.
	if used, err := r.inUse(ctx, r.Live, o); err != nil || used {
		return ctrl.Result{RequeueAfter: r.wait}, err
	}
	return ctrl.Result{}, r.delete(ctx, o)
}

// dueFor returns how long an object has been due and unused without a change, by a monotonic
// clock.
func (r *Reconciler) dueFor(o client.Object) time.Duration {
	key, now := client.ObjectKeyFromObject(o), observation{version: o.GetResourceVersion(), at: r.Clock.Now()}
	known, _ := r.firstDue.LoadOrStore(key, now)
	if first := known.(observation); first.version == now.version {
		return r.Clock.Since(first.at)
	}
	r.firstDue.Store(key, now)
	return 0
}

// mark annotates the object with the time, unless it has changed.
func (r *Reconciler) mark(ctx context.Context, o client.Object) error {
	marked := o.DeepCopyObject().(client.Object)
	marked.SetAnnotations(labels.Merge(o.GetAnnotations(), labels.Set{api.AnnotationLastUse: r.Clock.Now().UTC().Format(time.RFC3339)}))
	err := r.Client.Patch(ctx, marked, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking %s as unused: %w", o.GetName(), err)
	}
	return nil
}

// delete deletes the object, unless it has changed.
func (r *Reconciler) delete(ctx context.Context, o client.Object) error {
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: ptr.To(o.GetUID()), ResourceVersion: ptr.To(o.GetResourceVersion())})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting %s: %w", r.describe(o), err)
	}
	r.deleted(ctx, o)
	return nil
}
