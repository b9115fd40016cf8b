package retention

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

// +kubebuilder:rbac:groups="",roleName=vdi-agent-sessions,resources=persistentvolumeclaims,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,roleName=vdi-agent-sessions,resources=events,verbs=create;patch

// ControllerName names the controller in logs and metrics.
const ControllerName = "retention"

// maxRequeue is the longest time between two reconciles: timers don't follow a clock that is
// set.
const maxRequeue = time.Hour

// Reconciler reconciles the claims that have a retention time.
type Reconciler struct {
	// Client reads claims and assignments from the manager's cache, Live from the API
	// server.
	Client client.Client
	Live   client.Reader
	// Recorder of events on claims.
	Recorder events.EventRecorder
	// Clock of the member.
	Clock clock.PassiveClock
	// OverdueFor is how long this process must have seen a claim overdue and unused before
	// it is deleted.
	OverdueFor time.Duration

	overdue overdue
}

// SetupWithManager adds the controller to the manager, for the leader alone.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named(ControllerName).
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(marked))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the retention controller: %w", err)
	}
	return nil
}

// marked reports whether a claim has the time of its last use.
func marked(o client.Object) bool { return o.GetAnnotations()[api.AnnotationLastUse] != "" }

// Reconcile deletes the claim if it is due, or requeues.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var claim corev1.PersistentVolumeClaim
	if err := r.Client.Get(ctx, req.NamespacedName, &claim); err != nil {
		r.overdue.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	end, kept := keptUntil(&claim)
	if !kept {
		r.overdue.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if wait := end.Sub(r.Clock.Now()); wait > 0 {
		r.overdue.forget(req.NamespacedName)
		return ctrl.Result{RequeueAfter: min(wait, maxRequeue)}, nil
	}
	used, err := r.inUse(ctx, r.Client, &claim)
	if err != nil {
		return ctrl.Result{}, err
	}
	if used {
		// A session that uses it normally removes the annotation, which enqueues it.
		r.overdue.forget(req.NamespacedName)
		return ctrl.Result{RequeueAfter: maxRequeue}, nil
	}
	if wait := r.OverdueFor - r.overdue.since(&claim, r.Clock); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return r.expire(ctx, &claim)
}

// inUse reports whether an assignment names the claim.
func (r *Reconciler) inUse(ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim) (bool, error) {
	var all api.SessionAssignmentList
	if err := from.List(ctx, &all, client.InNamespace(claim.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the assignments that could use claim %s: %w", claim.Name, err)
	}
	return slices.ContainsFunc(all.Items, func(a api.SessionAssignment) bool {
		return a.Spec.Desktop.Home.ClaimName == claim.Name
	}), nil
}

// expire deletes the claim if it is unchanged. It reads its users from the API server, since
// the cache may be behind.
func (r *Reconciler) expire(ctx context.Context, claim *corev1.PersistentVolumeClaim) (ctrl.Result, error) {
	if used, err := r.inUse(ctx, r.Live, claim); err != nil || used {
		return ctrl.Result{RequeueAfter: r.OverdueFor}, err
	}
	err := r.Client.Delete(ctx, claim, client.Preconditions{
		UID: ptr.To(claim.UID), ResourceVersion: ptr.To(claim.ResourceVersion)})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("deleting a home whose retention has ended: %w", err)
	}
	deleted.Inc()
	r.overdue.forget(client.ObjectKeyFromObject(claim))
	lastUse, keep := claim.Annotations[api.AnnotationLastUse], claim.Annotations[api.AnnotationRetention]
	log.FromContext(ctx).Info("Deleted a home after its retention time",
		"lastUse", lastUse, "retention", keep)
	r.Recorder.Eventf(claim, nil, corev1.EventTypeNormal, api.EventHomeDeleted, "Delete",
		"The home was not used since %s, and its retention time is %s.", lastUse, keep)
	return ctrl.Result{}, nil
}

// keptUntil returns when the retention of a claim ends, by the member's clock, and false if
// it is used, kept for ever, not the agent's, or its annotations can't be read. A last use
// before the claim's creation, by a clock that was not set yet, counts as the creation.
func keptUntil(claim *corev1.PersistentVolumeClaim) (time.Time, bool) {
	if claim.Labels[api.LabelManagedBy] != api.ManagedBy || claim.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	lastUse, err := time.Parse(time.RFC3339, claim.Annotations[api.AnnotationLastUse])
	if err != nil {
		return time.Time{}, false
	}
	if created := claim.CreationTimestamp.Time; created.After(lastUse) {
		lastUse = created
	}
	keep, ok := api.Duration(claim.Annotations[api.AnnotationRetention]).Value()
	return lastUse.Add(keep), ok
}

var deleted = metrics.NewCounter("vdi_agent_homes_deleted_total",
	"Homes that were deleted after their retention time.")
