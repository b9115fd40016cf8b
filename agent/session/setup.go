package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments/status,verbs=update;patch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims;services,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// ControllerName names the controller in logs and metrics.
const ControllerName = "session"

// claimIndex finds the assignments that use a claim.
const claimIndex = "spec.desktop.home.claimName"

// Options of the reconciler. The zero value of each means its default.
type Options struct {
	// MaxConcurrentReconciles is how many sessions are worked on at once, by
	// default 8.
	MaxConcurrentReconciles int
	// Settle is how long a status must differ from the one that was written
	// before it is written, unless the session became ready, ceased to be, or
	// met trouble. By default 5 s, in which most desktops have started.
	Settle time.Duration
	// Quiet is the least time between two such writes, by default 10 s.
	Quiet time.Duration
	// SkipNameValidation allows a second controller of the same name in this
	// process, which tests need.
	SkipNameValidation bool
}

func (o Options) withDefaults() Options {
	if o.MaxConcurrentReconciles == 0 {
		o.MaxConcurrentReconciles = 8
	}
	if o.Settle == 0 {
		o.Settle = 5 * time.Second
	}
	if o.Quiet == 0 {
		o.Quiet = 10 * time.Second
	}
	return o
}

// CacheByObject is what the manager's cache must hold of the children: those
// that carry our label, and no one's managed fields. The reconciler itself
// reads others' objects from the API server where a name is taken.
func CacheByObject() map[client.Object]cache.ByObject {
	ours := cache.ByObject{
		Label:     labels.SelectorFromSet(labels.Set{api.LabelManagedBy: api.ManagedBy}),
		Transform: cache.TransformStripManagedFields(),
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                   ours,
		&corev1.PersistentVolumeClaim{}: ours,
		&corev1.Service{}:               ours,
		&networkingv1.Ingress{}:         ours,
	}
}

// SetupWithManager fills in what the reconciler lacks from the manager, and
// has it run there. The manager's cache must be made with CacheByObject.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r.fill(mgr, opts)
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &api.SessionAssignment{}, claimIndex, claimName)
	if err != nil {
		return fmt.Errorf("indexing assignments by claim: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&api.SessionAssignment{}).
		Owns(&corev1.Pod{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.usersOfClaim)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Options.MaxConcurrentReconciles,
			SkipNameValidation:      ptr.To(opts.SkipNameValidation),
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				50*time.Millisecond, 30*time.Second),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the session controller: %w", err)
	}
	return nil
}

func (r *Reconciler) fill(mgr ctrl.Manager, opts Options) {
	r.Options = opts.withDefaults()
	if r.Client == nil {
		r.Client = mgr.GetClient()
	}
	if r.APIReader == nil {
		r.APIReader = mgr.GetAPIReader()
	}
	if r.Recorder == nil {
		r.Recorder = mgr.GetEventRecorder("vdi-agent")
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
}

// claimName is the value of claimIndex.
func claimName(o client.Object) []string {
	a, ok := o.(*api.SessionAssignment)
	if !ok || !render.HasHome(a) {
		return nil
	}
	return []string{a.Spec.Desktop.Home.ClaimName}
}

// usersOfClaim maps a claim, which has no owner, to the assignments that use
// it.
func (r *Reconciler) usersOfClaim(ctx context.Context, claim client.Object) []reconcile.Request {
	var list api.SessionAssignmentList
	err := r.Client.List(ctx, &list, client.InNamespace(claim.GetNamespace()), client.MatchingFields{claimIndex: claim.GetName()})
	if err != nil {
		log.FromContext(ctx).Error(err, "Finding the assignments of a claim", "claim", client.ObjectKeyFromObject(claim))
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
