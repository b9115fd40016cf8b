package home

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdihomes,verbs=list;watch;create;update;delete
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdihomes/finalizers,verbs=update

const (
	// deletedSessionInterval is how often a home is checked whose session is gone but
	// may still have it mounted.
	deletedSessionInterval = 5 * time.Second
	// ClaimTimeout bounds the time from a home's claim to the write of its status.
	ClaimTimeout = 30 * time.Second
)

// Sessions is the part of the session controller that the home controller uses.
type Sessions interface {
	// DeclaredFenced reports whether an operator declared a member fenced.
	DeclaredFenced(member types.UID) bool
	// Enqueue enqueues a session whose home is claimed for a run that its status does not
	// have.
	Enqueue(session types.NamespacedName)
}

// Reconciler releases the homes of sessions that are gone or of which nothing is
// outstanding, and deletes records that have not been used for their retention time.
// Homes of stopped sessions are released once their member has reported the stop.
type Reconciler struct {
	// Client of the hub, which reads from its cache.
	Client client.Client
	// Live reads from the hub's API server.
	Live     client.Reader
	Sessions Sessions
	// Members by name.
	Members multicluster.Provider
	// Departed reports whether a session was deleted without its finalizer and a member
	// has not confirmed its stop.
	Departed func(assignment types.NamespacedName, member types.UID) bool
	// Gone reports whether a member was removed from the fleet permanently.
	Gone  func(member types.UID) bool
	Clock clock.PassiveClock

	once  sync.Once
	start time.Time
}

// now returns the wall clock's time, or less if it was set forward since this process started:
// the record of a home outlives a clock that is an hour ahead.
func (r *Reconciler) now() time.Time {
	c := r.Clock
	r.once.Do(func() { r.start = c.Now() })
	wall, steady := c.Now(), r.start.Round(0).Add(c.Since(r.start))
	if steady.Before(wall) {
		return steady
	}
	return wall
}

// SetupWithManager registers the controller of homes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("vdihome").
		For(&v1alpha1.VDIHome{}).
		Watches(&v1alpha1.VDISession{}, handler.EnqueueRequestsFromMapFunc(r.ofSession)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: backoff.Limiter[reconcile.Request]()}).
		Complete(r)
}

// ofSession returns the home of a session's user and template, if there is one: its creation
// enqueues it as well.
func (r *Reconciler) ofSession(ctx context.Context, o client.Object) []reconcile.Request {
	key := Key(o.(*v1alpha1.VDISession))
	if err := r.Client.Get(ctx, key, &v1alpha1.VDIHome{}, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// Reconcile releases one home, or deletes its record.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return backoff.OnConflict(r.update(ctx, req))
}

func (r *Reconciler) update(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, req.NamespacedName, h); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if h.Status.MountedByUID == "" {
		return r.expire(ctx, h)
	}
	holder, err := r.holderOf(ctx, h)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	switch {
	case holder == nil && r.mayBeMounted(ctx, h):
		return ctrl.Result{RequeueAfter: deletedSessionInterval}, nil
	case holder == nil:
		log.FromContext(ctx).V(1).Info("Releasing the home of a deleted session", "session", h.Status.MountedBy)
		return ctrl.Result{}, Release(ctx, r.Client, h, nil, status.Seconds(now))
	case LastRun(holder).Before(ClaimedRun(h)):
		return r.awaitClaim(h, holder)
	case !MayStillUse(holder, h) && (holder.Status.Placement == nil || !UsesRecord(holder)):
		return ctrl.Result{}, Release(ctx, r.Client, h, holder, status.Seconds(now))
	}
	return ctrl.Result{}, nil
}

// mayBeMounted reports whether the home's member may still run the session that claimed it,
// although that session is gone because its finalizer was removed. Only the member's own
// report can rule that out.
func (r *Reconciler) mayBeMounted(ctx context.Context, h *v1alpha1.VDIHome) bool {
	if r.Gone(h.Spec.ClusterUID) || r.Sessions.DeclaredFenced(h.Spec.ClusterUID) {
		return false
	}
	key := types.NamespacedName{Namespace: h.Namespace, Name: v1alpha1.AssignmentName(h.Status.MountedBy, h.Status.MountedByUID)}
	if r.Departed(key, h.Spec.ClusterUID) {
		return true
	}
	member, err := r.Members.Get(ctx, multicluster.ClusterName(h.Spec.ClusterName))
	if err != nil {
		return true // the member is not connected
	}
	reported := &v1alpha1.SessionAssignment{}
	err = member.GetClient().Get(ctx, key, reported)
	return client.IgnoreNotFound(err) != nil || err == nil && !status.Ended(reported)
}

// holderOf returns the session that claimed a home, or nil if the API server, not only the
// cache, has none.
func (r *Reconciler) holderOf(ctx context.Context, h *v1alpha1.VDIHome) (*v1alpha1.VDISession, error) {
	key := types.NamespacedName{Namespace: h.Namespace, Name: h.Status.MountedBy}
	for _, c := range []client.Reader{r.Client, r.Live} {
		s := &v1alpha1.VDISession{}
		err := c.Get(ctx, key, s)
		if err == nil && s.UID == h.Status.MountedByUID {
			return s, nil
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading the session that has the home: %w", err)
		}
	}
	return nil, nil
}

// awaitClaim waits for the status of a run that a home was claimed for. After ClaimTimeout
// the session controller skips that run: the hub stopped between the two writes, or the
// second failed.
func (r *Reconciler) awaitClaim(h *v1alpha1.VDIHome, s *v1alpha1.VDISession) (ctrl.Result, error) {
	if wait := claimTimeLeft(h, r.now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.Sessions.Enqueue(client.ObjectKeyFromObject(s))
	return ctrl.Result{RequeueAfter: ClaimTimeout}, nil
}

// expire deletes the record of a home that was not used for its retention time. The member
// deletes its claim after the same time on its own.
func (r *Reconciler) expire(ctx context.Context, h *v1alpha1.VDIHome) (ctrl.Result, error) {
	keep, limited := h.Spec.RetentionTime.Value()
	if !limited || !h.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	since := h.CreationTimestamp
	if h.Status.LastUseTime != nil {
		since = *h.Status.LastUseTime
	}
	if wait := since.Add(keep).Sub(r.now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	log.FromContext(ctx).Info("Deleting the record of a home that was not used for its retention time", "user", h.Spec.User, "template", h.Spec.Template)
	unchanged := client.Preconditions{UID: &h.UID, ResourceVersion: &h.ResourceVersion}
	if err := r.Client.Delete(ctx, h, unchanged); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("deleting the record of the home: %w", err))
	}
	return ctrl.Result{}, nil
}
