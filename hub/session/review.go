package session

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/fleet"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

const (
	// reviewLasts is how long a review is kept once it is answered, or where it
	// can't be.
	reviewLasts = 10 * time.Minute
	// reviewTime is the most that is spent on trying the sessions of a review. One
	// is answered at a time, so that however many are asked they take one core, by
	// turns of the namespaces.
	reviewTime = time.Second
)

// Reviewer is what a review needs of the fleet.
type Reviewer interface {
	// Judging is whether members have yet to say if they can run a template.
	Judging(placement.TemplateKey) bool
	// Review says where sessions would go, and changes nothing.
	Review(ctx context.Context, in fleet.Inquiry) fleet.Review
}

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=placementreviews,verbs=list;watch;delete
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=placementreviews/status,verbs=patch

// ReviewReconciler answers reviews: it takes the steps of a session up to its
// placement, asks the fleet without taking anything, and writes the answer into
// the review instead of into a session.
type ReviewReconciler struct {
	Client client.Client
	Fleet  Reviewer
	// Sessions knows how sessions are resolved, accepted and placed.
	Sessions *Reconciler
	Clock    clock.PassiveClock

	pending reviewQueue
}

// SetupWithManager registers the controller of reviews.
func (r *ReviewReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("placementreview").
		For(&v1alpha1.PlacementReview{}, builder.WithPredicates(r.pending.observed())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1, NewQueue: r.pending.workqueue, RateLimiter: backoff.Limiter[reconcile.Request](),
		}).
		Complete(r)
}

// Reconcile answers a review, or deletes it when its time is over.
func (r *ReviewReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Sessions.Rebuild(ctx); err != nil {
		return ctrl.Result{}, err
	}
	review := &v1alpha1.PlacementReview{}
	if err := r.Client.Get(ctx, req.NamespacedName, review); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !review.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if answered := review.Status.ReviewTime; answered != nil {
		if left := reviewLasts - r.Clock.Since(answered.Time); left > 0 {
			return ctrl.Result{RequeueAfter: left}, nil
		}
		return ctrl.Result{}, r.drop(ctx, review)
	}
	if r.Clock.Since(review.CreationTimestamp.Time) > reviewLasts {
		return ctrl.Result{}, r.drop(ctx, review) // nobody waits for it any more
	}
	answer, err := r.answer(ctx, review)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case answer == nil:
		return ctrl.Result{RequeueAfter: judgePoll}, nil
	}
	after := review.DeepCopy()
	after.Status = *answer
	now := status.Seconds(r.Clock.Now())
	after.Status.ReviewTime = &now
	patch := client.MergeFromWithOptions(review, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, after, patch); err != nil {
		return backoff.OnConflict(ctrl.Result{}, client.IgnoreNotFound(err))
	}
	return ctrl.Result{RequeueAfter: reviewLasts}, nil
}

func (r *ReviewReconciler) drop(ctx context.Context, review *v1alpha1.PlacementReview) error {
	return client.IgnoreNotFound(r.Client.Delete(ctx, review, client.Preconditions{UID: &review.UID}))
}

// answer to a review; nil while members have yet to judge the template.
func (r *ReviewReconciler) answer(ctx context.Context, review *v1alpha1.PlacementReview) (*v1alpha1.PlacementReviewStatus, error) {
	count := max(review.Spec.Count, 1)
	refused := func(reason, message string) (*v1alpha1.PlacementReviewStatus, error) {
		return &v1alpha1.PlacementReviewStatus{Reason: reason, Message: message, Waiting: count}, nil
	}
	if !r.pending.admits(client.ObjectKeyFromObject(review)) {
		return refused(v1alpha1.ReasonTooManyReviews, fmt.Sprintf(
			"namespace %s has %d reviews that are not answered yet, which is the maximum: wait for them or delete them, then create this one again; with spec.count one review covers many sessions",
			review.Namespace, maxPendingReviews))
	}
	s, err := r.session(ctx, review)
	if apierrors.IsNotFound(err) {
		return refused(v1alpha1.ReasonSessionNotFound, fmt.Sprintf(
			"there is no session %q in namespace %s: kubectl get vdisessions -n %[2]s lists them", review.Spec.SessionName, review.Namespace))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the session: %w", err)
	}
	p := &pass{session: s}
	if _, err := r.Sessions.resolve(ctx, p); err != nil {
		return nil, err
	}
	seat, had := seatOf(s), s.Status.Resources
	s.Status.Placement = nil
	if err := r.Sessions.readPolicies(ctx, p); err != nil {
		return nil, err
	}
	leaving := p.template != nil && !p.template.DeletionTimestamp.IsZero()
	if c := r.Sessions.acceptance(s, p.spec, leaving, p.policies); c.Status == metav1.ConditionFalse {
		return refused(c.Reason, c.Message)
	}
	if p.resources = p.spec.Resources.For(s.Spec.Resources); seat != nil {
		p.resources = had
	}
	held, err := r.heldUp(ctx, p)
	if err != nil {
		return nil, err
	}
	policy, _ := policy.Governing(s, p.policies)
	req := r.Sessions.request(p, policy)
	req.Seat = seat
	if r.Fleet.Judging(req.Template) {
		return nil, nil
	}
	status := r.ask(ctx, review, p, req, held)
	if policy != nil {
		status.Policy = policy.Name
	}
	return status, nil
}

// session that a review is about: the one of that name, or one that there might
// be. It may be changed.
func (r *ReviewReconciler) session(ctx context.Context, review *v1alpha1.PlacementReview) (*v1alpha1.VDISession, error) {
	s := &v1alpha1.VDISession{}
	if review.Spec.Session == nil {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: review.Namespace, Name: review.Spec.SessionName}, s)
		return s, err
	}
	s.Namespace, s.Name, s.UID = review.Namespace, review.Name, review.UID
	s.Annotations, s.Labels, s.Spec = review.Annotations, review.Spec.Labels, *review.Spec.Session.DeepCopy()
	return s, nil
}

// seatOf is where a session is placed; nil: nowhere.
func seatOf(s *v1alpha1.VDISession) *placement.Seat {
	at := s.Status.Placement
	if at == nil {
		return nil
	}
	return &placement.Seat{Cluster: at.ClusterUID, Taken: !at.Idle}
}

// heldUp is the condition Scheduled of a session that would not be placed now
// whatever room there is; nil: it would. What pins it to a member is in the pass
// either way.
func (r *ReviewReconciler) heldUp(ctx context.Context, p *pass) (*metav1.Condition, error) {
	s := p.session
	condition := func(reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	n, err := r.Sessions.acquireHome(ctx, p)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		return condition(v1alpha1.ReasonSuspended, "suspended: set spec.operatingMode to Running, and it goes where the verdicts say"), nil
	case status.TimeOver(s, p.spec):
		return condition(v1alpha1.ReasonTimeExpired, status.ExpiredMessage(s, p.spec)), nil
	case len(status.AwaitedReleases(s)) > 0:
		return condition(v1alpha1.ReasonReleasing, status.ReleasingMessage(s, "")), nil
	case n == goOn:
		return nil, nil
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled); c != nil && c.Reason == v1alpha1.ReasonTooManyHomes {
		return c, nil
	}
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, home.Key(s), h); err != nil {
		return nil, fmt.Errorf("reading the home: %w", err)
	}
	p.home.pinned = &v1alpha1.ClusterRef{Name: h.Spec.ClusterName, UID: h.Spec.ClusterUID}
	return condition(v1alpha1.ReasonHomeInUse, home.InUse(s, h)), nil
}

// ask the fleet, and write down what it says.
func (r *ReviewReconciler) ask(ctx context.Context, review *v1alpha1.PlacementReview, p *pass, req placement.Request, held *metav1.Condition) *v1alpha1.PlacementReviewStatus {
	count := max(review.Spec.Count, 1)
	in := fleet.Inquiry{Request: req, Count: int(count), DistinctUsers: review.Spec.DistinctUsers, Held: held != nil}
	shared := p.spec.Home.Mode == v1alpha1.HomePerUser && !in.DistinctUsers
	if shared || held != nil && held.Reason == v1alpha1.ReasonSuspended {
		in.Count = 1 // the others wait like it, or for it
	}
	ctx, stop := context.WithTimeout(ctx, reviewTime)
	defer stop()
	status := statusOf(r.Fleet.Review(ctx, in))
	status.Waiting = count - status.Placed - status.Unasked
	switch {
	case held != nil:
		status.Reason, status.Message = held.Reason, held.Message
	case shared && status.Placed > 0 && status.Waiting > 0:
		status.Reason = v1alpha1.ReasonHomeInUse
		status.Message = fmt.Sprintf("the first of them has the home of %s, and the others wait until it is free: ask with distinctUsers where as many users would go",
			p.session.Spec.User)
	case status.Unasked > 0:
		status.Message += fmt.Sprintf("; %d of the %d were not tried: the time for a review was over", status.Unasked, count)
	}
	return status
}
