package session

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/agent/activity"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=get;list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,roleName=vdi-agent-sessions,resources=sessionassignments,verbs=patch
// +kubebuilder:rbac:groups=vdi.kasm.io,roleName=vdi-agent-sessions,resources=sessionassignments/status,verbs=update
// +kubebuilder:rbac:groups=vdi.kasm.io,roleName=vdi-agent-sessions,resources=sessionassignments/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",roleName=vdi-agent-sessions,resources=pods,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",roleName=vdi-agent-sessions,resources=persistentvolumeclaims;services;configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",roleName=vdi-agent-sessions,resources=secrets,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,roleName=vdi-agent-sessions,resources=ingresses;networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,roleName=vdi-agent-sessions,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,roleName=vdi-agent-sessions,resources=events,verbs=create;patch

// ControllerName names the controller in logs and metrics.
const ControllerName = "session"

// claimIndex finds the assignments that use a claim.
const claimIndex = "spec.desktop.home.claimName"

// workers is how many sessions are reconciled at once.
const workers = 8

// Options of the reconciler.
type Options struct {
	// StatusDelay is how long a status must differ before it is written, unless the session
	// became ready or not ready, or has a problem. By default 5 s, in which most desktops
	// start.
	StatusDelay time.Duration
	// StatusInterval is the least time between two such writes, by default 10 s.
	StatusInterval time.Duration
	// Network has the member's parameters of rendering. Its Controller is by default that of
	// the Ingress class in use.
	Network render.Network
	// RetryLimits decides when a session has failed.
	RetryLimits observe.RetryLimits
	// CleanupDeadline is how long a stopped session waits for the removal of its children
	// except Pods.
	CleanupDeadline time.Duration
	// LostAfter is how long a node must not have answered before those of its desktops that
	// may run twice and have no home start on other nodes.
	LostAfter time.Duration
	// Guard has the parameters of guards and gates, except Key, which is that of
	// Dependencies.GuardKey. If it is nil, none are created.
	Guard *render.Guard
	// Activity configures the probes of desktops.
	Activity activity.Options
}

func byAssignment(o client.Object) []string { return render.AssignmentOf(o) }

func (o Options) withDefaults() Options {
	o.StatusDelay = cmp.Or(o.StatusDelay, 5*time.Second)
	o.StatusInterval = cmp.Or(o.StatusInterval, 10*time.Second)
	return o
}

// CacheByObject returns the children that the manager's cache must have: those with the
// agent's label, without managed fields. Other owners' objects are read from the API server on
// a name conflict. HTTPRoutes have a separate cache, since not every member serves them.
func CacheByObject() map[client.Object]cache.ByObject {
	managed := cache.ByObject{
		Label:     labels.SelectorFromSet(labels.Set{api.LabelManagedBy: api.ManagedBy}),
		Transform: cache.TransformStripManagedFields(),
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                   managed,
		&corev1.PersistentVolumeClaim{}: managed,
		&corev1.Service{}:               managed,
		&networkingv1.Ingress{}:         managed,
		&networkingv1.NetworkPolicy{}:   managed,
		&policyv1.PodDisruptionBudget{}: managed,
		&corev1.ConfigMap{}:             managed,
		&corev1.Secret{}:                managed,
	}
}

// SetupWithManager adds the controller to the manager, whose scheme must have HTTPRoutes, and
// whose cache the options of CacheByObject.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &api.SessionAssignment{}, claimIndex, claimName)
	if err != nil {
		return fmt.Errorf("indexing assignments by claim: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, render.AssignmentIndex, byAssignment); err != nil {
		return fmt.Errorf("indexing Pods by assignment: %w", err)
	}
	activityChanges, err := r.probeActivity(mgr)
	if err != nil {
		return err
	}
	built := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&api.SessionAssignment{}).
		Owns(&corev1.Pod{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}).
		Owns(&networkingv1.Ingress{}).
		Watches(&networkingv1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.usersOfNamespace)).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.usersOfNamespace), builder.WithPredicates(ignoreStatus)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.usersOfClaim)).
		Watches(&corev1.Pod{}, handler.Funcs{DeleteFunc: r.enqueueUsersOfHome}).
		WatchesRawSource(activityChanges).
		WatchesRawSource(source.Channel(r.Lease.Changes(), handler.EnqueueRequestsFromMapFunc(r.usersOfLease))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				50*time.Millisecond, 30*time.Second),
		})
	if r.Growth != nil {
		built.WatchesRawSource(source.Channel(r.Growth.GrowthChanges(), &handler.EnqueueRequestForObject{}))
	}
	if r.Door != nil {
		built.WatchesRawSource(source.Channel(r.Door.Changes(), handler.EnqueueRequestsFromMapFunc(r.all)))
	}
	made, err := built.Build(r)
	if err != nil {
		return fmt.Errorf("building the session controller: %w", err)
	}
	r.routes.Start = func() (client.Reader, error) { return watchRoutes(mgr, made) }
	return nil
}
