package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// statusInterval is the least time between two status writes of a member for
// what changes with every session: slots and counts. Health is written at once.
const statusInterval = 2 * time.Second

// MemberReconciler keeps a MemberCluster's status, finalizer and heartbeat.
//
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters/status,verbs=update;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch;update
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
type MemberReconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Fleet    *Fleet
	// Namespace of the heartbeat Leases.
	Namespace string

	mu      sync.Mutex
	written map[types.UID]time.Time
	beaten  map[types.UID]time.Time
}

// SetupWithManager registers the reconciler.
func (r *MemberReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.written, r.beaten = map[types.UID]time.Time{}, map[types.UID]time.Time{}
	return ctrl.NewControllerManagedBy(mgr).
		Named("membercluster").
		For(&v1alpha1.MemberCluster{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesRawSource(r.changes()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
		Complete(r)
}

// changes enqueues a member whenever the fleet says that it changed.
func (r *MemberReconciler) changes() source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.Fleet.Listen(func(c Change) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: c.Member}})
		})
		return nil
	})
}

// Reconcile brings one MemberCluster up to date.
func (r *MemberReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer r.Fleet.gauge()
	mc := &v1alpha1.MemberCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, mc); err != nil {
		if apierrors.IsNotFound(err) {
			r.Fleet.Remove(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.Fleet.Register(mc)
	v, ok := r.Fleet.viewOf(mc.Name)
	if !ok {
		return ctrl.Result{}, nil
	}
	if done, err := r.finalize(ctx, mc, v); done || err != nil {
		return ctrl.Result{}, err
	}
	wait, err := r.status(ctx, mc, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	beat, err := r.heartbeat(ctx, mc, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: soonest(wait, beat, v.recheck)}, nil
}

// finalize keeps the MemberCluster while sessions are placed there or not
// confirmed stopped, and says so; done means that it may go.
func (r *MemberReconciler) finalize(ctx context.Context, mc *v1alpha1.MemberCluster, v view) (done bool, err error) {
	if mc.DeletionTimestamp.IsZero() {
		if !controllerutil.AddFinalizer(mc, v1alpha1.MemberFinalizer) {
			return false, nil
		}
		if err := r.Client.Update(ctx, mc); err != nil {
			return false, fmt.Errorf("adding the finalizer: %w", err)
		}
		return false, nil
	}
	if v.sessions > 0 {
		r.Recorder.Eventf(mc, nil, "Warning", "InUse", "Remove", "%d sessions are placed there or not confirmed stopped: delete them first", v.sessions)
		return false, nil
	}
	if controllerutil.RemoveFinalizer(mc, v1alpha1.MemberFinalizer) {
		if err := r.Client.Update(ctx, mc); err != nil {
			return false, client.IgnoreNotFound(fmt.Errorf("removing the finalizer: %w", err))
		}
	}
	return true, nil
}

// status writes what changed; a change of counts alone waits its turn.
func (r *MemberReconciler) status(ctx context.Context, mc *v1alpha1.MemberCluster, v view) (wait time.Duration, err error) {
	before := mc.DeepCopy()
	writeStatus(&mc.Status, v, mc.Generation)
	if equality.Semantic.DeepEqual(before.Status, mc.Status) {
		return 0, nil
	}
	now := r.Fleet.clock.Now()
	if equality.Semantic.DeepEqual(before.Status.Conditions, mc.Status.Conditions) {
		r.mu.Lock()
		due := r.written[mc.UID].Add(statusInterval)
		r.mu.Unlock()
		if due.After(now) {
			return due.Sub(now), nil
		}
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, mc, patch); err != nil {
		return 0, fmt.Errorf("writing the status: %w", err)
	}
	r.mu.Lock()
	r.written[mc.UID] = now
	r.mu.Unlock()
	r.announce(before, mc)
	return 0, nil
}

// announce records an event when Ready changed.
func (r *MemberReconciler) announce(before, after *v1alpha1.MemberCluster) {
	was, is := ready(before), ready(after)
	if is == nil || (was != nil && was.Reason == is.Reason) {
		return
	}
	kind := "Normal"
	if is.Status != metav1.ConditionTrue {
		kind = "Warning"
	}
	r.Recorder.Eventf(after, nil, kind, is.Reason, "Watch", "%s", is.Message)
}

func ready(mc *v1alpha1.MemberCluster) *metav1.Condition {
	for i := range mc.Status.Conditions {
		if mc.Status.Conditions[i].Type == v1alpha1.ConditionReady {
			return &mc.Status.Conditions[i]
		}
	}
	return nil
}

// heartbeat renews the member's Lease object while its agent is alive, so
// that anyone can see when it was last heard of.
func (r *MemberReconciler) heartbeat(ctx context.Context, mc *v1alpha1.MemberCluster, v view) (time.Duration, error) {
	if v.health != HealthReady || v.heard.IsZero() {
		return 0, nil
	}
	now, every := r.Fleet.clock.Now(), r.Fleet.timings.Heartbeat
	r.mu.Lock()
	due := r.beaten[mc.UID].Add(every)
	r.mu.Unlock()
	if due.After(now) {
		return due.Sub(now), nil
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "member-" + mc.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, lease, func() error {
		lease.Spec.HolderIdentity = ptr.To(v.fingerprint)
		lease.Spec.LeaseDurationSeconds = ptr.To(int32(r.Fleet.timings.Unreachable.Seconds() + 1))
		lease.Spec.RenewTime = &metav1.MicroTime{Time: v.heard}
		return controllerutil.SetOwnerReference(mc, lease, r.Client.Scheme())
	})
	if err != nil {
		return 0, fmt.Errorf("renewing the heartbeat: %w", err)
	}
	r.mu.Lock()
	r.beaten[mc.UID] = now
	r.mu.Unlock()
	return every, nil
}

func soonest(waits ...time.Duration) time.Duration {
	var least time.Duration
	for _, w := range waits {
		if w > 0 && (least == 0 || w < least) {
			least = w
		}
	}
	return least
}
