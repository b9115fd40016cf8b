package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdihomes,verbs=list;watch;create;update;delete
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdihomes/finalizers,verbs=update

// orphanWait is how soon a home is looked at again whose session is gone, and which
// the session may still have mounted.
const orphanWait = 5 * time.Second

// takenWait is how long the status that a home was taken for may be on its way.
const takenWait = 30 * time.Second

// HomeReconciler gives back the homes of sessions that are gone or of which
// nothing is outstanding, and deletes the records of those that nobody has used
// for their retention time. The homes of sessions that are idle are given back
// by the MemberReconciler, which hears from the member that they have stopped.
type HomeReconciler struct {
	// Client of the hub, which reads from its cache, and Live, which reads from
	// its API server.
	Client   client.Client
	Live     client.Reader
	Sessions *Reconciler
	// Members by name.
	Members multicluster.Provider

	// began is when this process first looked at a home.
	began sync.Once
	start time.Time
}

// now is the wall clock's time, or less where somebody has set it forward since this
// process first looked: the record of a home outlives a clock that is an hour ahead.
func (r *HomeReconciler) now() time.Time {
	c := r.Sessions.Clock
	r.began.Do(func() { r.start = c.Now() })
	wall, steady := c.Now(), r.start.Round(0).Add(c.Since(r.start))
	if steady.Before(wall) {
		return steady
	}
	return wall
}

// SetupWithManager registers the controller of homes.
func (r *HomeReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("vdihome").
		For(&v1alpha1.VDIHome{}).
		Watches(&v1alpha1.VDISession{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: homeKey(o.(*v1alpha1.VDISession))}}
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: backoff.Limiter[reconcile.Request]()}).
		Complete(r)
}

// freed passes on that a home is free for others, or its record gone, or that an
// operator has deleted some that were left behind.
var freed = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.VDIHome), e.ObjectNew.(*v1alpha1.VDIHome)
		return before.Status.MountedByUID != "" && after.Status.MountedByUID == "" ||
			len(after.Status.LeftBehind) < len(before.Status.LeftBehind)
	},
}

// ofHome are the sessions that may wait for a home.
func (r *Reconciler) ofHome(ctx context.Context, h client.Object) []reconcile.Request {
	list := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(h.GetNamespace()), client.MatchingFields{indexHome: h.GetName()}); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, v1alpha1.ConditionScheduled) {
			out = append(out, requestFor(&list.Items[i]))
		}
	}
	return out
}

// Reconcile gives back one home, or expires it.
func (r *HomeReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.update(ctx, req)
	return backoff.OnConflict(result, err)
}

func (r *HomeReconciler) update(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
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
	now := r.Sessions.Clock.Now()
	switch {
	case holder == nil && r.mayBeMounted(ctx, h):
		return ctrl.Result{RequeueAfter: orphanWait}, nil
	case holder == nil:
		log.FromContext(ctx).V(1).Info("Giving back the home of a session that is gone", "session", h.Status.MountedBy)
		return ctrl.Result{}, giveBack(ctx, r.Client, h, nil, status.Seconds(now))
	case reached(holder).Before(takenFor(h)):
		return r.catchUp(ctx, h, holder)
	case !stillUses(holder, h) && (holder.Status.Placement == nil || !usesRecord(holder)):
		return ctrl.Result{}, giveBack(ctx, r.Client, h, holder, status.Seconds(now))
	}
	return ctrl.Result{}, nil
}

// mayBeMounted reports whether the member where a home lies may still run the session
// that has it, although that session is gone: somebody removed its finalizer. It can
// be ruled out by the member's own report alone.
func (r *HomeReconciler) mayBeMounted(ctx context.Context, h *v1alpha1.VDIHome) bool {
	if r.Sessions.Fleet.Gone(h.Spec.ClusterUID) || r.Sessions.isOff(h.Spec.ClusterUID) {
		return false
	}
	key := types.NamespacedName{Namespace: h.Namespace, Name: v1alpha1.AssignmentName(h.Status.MountedBy, h.Status.MountedByUID)}
	if _, _, left := r.Sessions.departed.of(key, h.Spec.ClusterUID); left {
		return true
	}
	member, err := r.Members.Get(ctx, multicluster.ClusterName(h.Spec.ClusterName))
	if err != nil {
		return true // it is away
	}
	reported, err := reportedOf(ctx, member.GetClient(), key)
	return err != nil || reported != nil && !ended(reported)
}

// freeHome gives back the home of a session that was let go by force: an operator has
// declared that nothing of it runs.
func (r *Reconciler) freeHome(ctx context.Context, s *v1alpha1.VDISession) error {
	h := &v1alpha1.VDIHome{}
	err := r.Client.Get(ctx, homeKey(s), h)
	if err != nil || h.Status.MountedByUID != s.UID {
		return client.IgnoreNotFound(err)
	}
	return giveBack(ctx, r.Client, h, nil, status.Seconds(r.Clock.Now()))
}

// usesRecord is whether a session's home is a PerUser home: one that was tried
// again with a template that has none uses it no more.
func usesRecord(s *v1alpha1.VDISession) bool { return s.Status.Home != nil && s.Status.Home.Name != "" }

// holderOf is the session that has a home, nil if it is gone: of that the API
// server has the last word, not a cache.
func (r *HomeReconciler) holderOf(ctx context.Context, h *v1alpha1.VDIHome) (*v1alpha1.VDISession, error) {
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

// catchUp deals with a home that was taken for a run of which the session's
// status does not tell: the hub ended between the two writes, or the second
// failed. After a while that run is passed over. The lock on the session makes
// sure that the write of old, should it still be on its way, comes too late.
func (r *HomeReconciler) catchUp(ctx context.Context, h *v1alpha1.VDIHome, s *v1alpha1.VDISession) (ctrl.Result, error) {
	if h.Status.LastUseTime != nil {
		// A longer wait is that of a clock that was set back.
		if wait := h.Status.LastUseTime.Add(takenWait).Sub(r.now()); wait > 0 && wait <= takenWait {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	of, after := takenFor(h), s.DeepCopy()
	switch p := after.Status.Placement; {
	case p != nil && p.Epoch == of.Epoch:
		p.Run = of.Number
	default:
		after.Status.Epoch = of.Epoch
	}
	return ctrl.Result{RequeueAfter: backoff.ConflictDelay}, client.IgnoreNotFound(r.Sessions.patchStatus(ctx, s, after))
}

// expire deletes the record of a home that nobody has used for its retention
// time. Its claim goes by the same time, which the member reckons alone.
func (r *HomeReconciler) expire(ctx context.Context, h *v1alpha1.VDIHome) (ctrl.Result, error) {
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
	log.FromContext(ctx).Info("Deleting the record of a home that nobody has used for its retention time", "user", h.Spec.User, "template", h.Spec.Template)
	unchanged := client.Preconditions{UID: &h.UID, ResourceVersion: &h.ResourceVersion}
	if err := r.Client.Delete(ctx, h, unchanged); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("deleting the record of the home: %w", err))
	}
	return ctrl.Result{}, nil
}

// giveBackHome frees the home of a session that is idle, once the member says
// of the very assignment that is wanted that nothing of it runs.
func (r *MemberReconciler) giveBackHome(ctx context.Context, v *visit) error {
	s := v.session
	if !usesRecord(s) || status.ToRun(s) || !hasStopped(v.reported, v.hash) {
		return nil
	}
	h := &v1alpha1.VDIHome{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Status.Home.Name}, h)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the home: %w", err)
	case h.Status.MountedByUID != s.UID || stillUses(s, h) || reached(s).Before(takenFor(h)):
		return nil
	}
	return giveBack(ctx, r.Client, h, s, status.Seconds(r.Clock.Now()))
}

// hasStopped is whether a member says that nothing runs of an assignment that
// it was told not to run: its status is of the very spec that is wanted, and
// there is no Pod.
func hasStopped(reported *v1alpha1.SessionAssignment, hash string) bool {
	pod := meta.FindStatusCondition(reported.Status.Conditions, v1alpha1.ConditionPodReady)
	if pod == nil || pod.Status != metav1.ConditionFalse || reported.Annotations[v1alpha1.AnnotationSpecHash] != hash ||
		reported.Status.ObservedGeneration == 0 || reported.Status.NodeName != "" {
		return false
	}
	switch pod.Reason {
	case v1alpha1.ReasonSuspended, v1alpha1.ReasonTimeExpired:
		return true
	case v1alpha1.ReasonPodTerminating:
		return false
	}
	return reported.Status.Failure != nil
}
