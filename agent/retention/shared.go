package retention

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,roleName=vdi-agent-sessions,resources=networkpolicies,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=policy,roleName=vdi-agent-sessions,resources=poddisruptionbudgets,verbs=get;list;watch;patch;delete

// Shared removes the NetworkPolicies and PodDisruptionBudgets that no Pod uses. The desktops of a
// namespace share them: see agent/session.
type Shared struct {
	// Client reads from the manager's cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	// Clock of the member.
	Clock clock.PassiveClock
	// UnusedFor is how long an object must have been marked as unused before it is deleted.
	UnusedFor time.Duration
	// SkipNameValidation allows a second controller of the same name in this
	// process, which tests need.
	SkipNameValidation bool
}

// SetupWithManager adds a controller for each kind to the manager, for the leader alone.
func (s Shared) SetupWithManager(mgr ctrl.Manager) error {
	for name, r := range map[string]*sharedReconciler{
		"retention-networkpolicy": {Shared: s, empty: func() client.Object { return &networkingv1.NetworkPolicy{} },
			selector: func(o client.Object) *metav1.LabelSelector { return &o.(*networkingv1.NetworkPolicy).Spec.PodSelector }},
		"retention-poddisruptionbudget": {Shared: s, empty: func() client.Object { return &policyv1.PodDisruptionBudget{} },
			selector: func(o client.Object) *metav1.LabelSelector { return o.(*policyv1.PodDisruptionBudget).Spec.Selector }},
	} {
		err := ctrl.NewControllerManagedBy(mgr).Named(name).For(r.empty()).
			WithOptions(controller.Options{SkipNameValidation: ptr.To(s.SkipNameValidation)}).
			Complete(r)
		if err != nil {
			return fmt.Errorf("building the %s controller: %w", name, err)
		}
	}
	return nil
}

// sharedReconciler reconciles the objects of one kind.
type sharedReconciler struct {
	Shared
	empty    func() client.Object
	selector func(client.Object) *metav1.LabelSelector
	marked   overdue
}

// Reconcile marks an object that no Pod uses, and deletes it if it has been marked long enough.
// Before agent/session creates a Pod it removes the mark, after which the deletion fails.
func (r *sharedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o := r.empty()
	if err := r.Client.Get(ctx, req.NamespacedName, o); err != nil {
		r.marked.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if o.GetLabels()[api.LabelManagedBy] != api.ManagedBy {
		return ctrl.Result{}, nil
	}
	used, err := r.inUse(ctx, r.Client, o)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := ctrl.Result{RequeueAfter: r.UnusedFor}
	switch {
	case used:
		r.marked.forget(req.NamespacedName)
		return next, nil
	case o.GetAnnotations()[api.AnnotationLastUse] == "":
		return next, r.mark(ctx, o)
	}
	if wait := r.UnusedFor - r.marked.since(o, r.Clock); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	// The cache may be behind.
	if used, err := r.inUse(ctx, r.Live, o); err != nil || used {
		return next, err
	}
	return ctrl.Result{}, r.delete(ctx, o)
}

// inUse reports whether the object selects a Pod.
func (r *sharedReconciler) inUse(ctx context.Context, from client.Reader, o client.Object) (bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(r.selector(o))
	if err != nil {
		return false, fmt.Errorf("reading the selector of %s: %w", o.GetName(), err)
	}
	var pods corev1.PodList
	err = from.List(ctx, &pods, client.InNamespace(o.GetNamespace()), client.MatchingLabelsSelector{Selector: selector},
		client.Limit(1), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing the Pods that %s selects: %w", o.GetName(), err)
	}
	return len(pods.Items) > 0, nil
}

// mark annotates the object with the time, unless it has changed.
func (r *sharedReconciler) mark(ctx context.Context, o client.Object) error {
	marked := o.DeepCopyObject().(client.Object)
	marked.SetAnnotations(labels.Merge(o.GetAnnotations(), labels.Set{api.AnnotationLastUse: r.Clock.Now().UTC().Format(time.RFC3339)}))
	err := r.Client.Patch(ctx, marked, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking %s as unused: %w", o.GetName(), err)
	}
	return nil
}

// delete deletes the object, unless it has changed.
func (r *sharedReconciler) delete(ctx context.Context, o client.Object) error {
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: ptr.To(o.GetUID()), ResourceVersion: ptr.To(o.GetResourceVersion())})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("deleting %s, which no desktop uses: %w", o.GetName(), err)
	}
	log.FromContext(ctx).V(1).Info("Deleted an object that no desktop uses", "name", o.GetName())
	return nil
}
