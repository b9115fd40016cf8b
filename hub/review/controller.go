package review

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/cache"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

const (
	// reviewLasts is how long a review is kept, whether it is answered or not.
	reviewLasts = 10 * time.Minute
	// reviewTime is the time limit of a review's dry run. Reviews are computed one at a
	// time, so that however many there are they use one core, and namespaces alternate.
	reviewTime = time.Second
)

// evaluatingPoll is how often to check whether the members have evaluated a template.
const evaluatingPoll = 50 * time.Millisecond

// Members of the fleet.
type Members interface {
	// Evaluating reports whether some members have not reported yet whether they can run
	// a template.
	Evaluating(template placement.TemplateKey) bool
}

// Placement computes where sessions would be placed.
type Placement interface {
	// Review returns where sessions would be placed, and changes nothing.
	Review(ctx context.Context, in cache.DryRun) v1alpha1.PlacementReviewStatus
}

// Sessions is the controller of sessions.
type Sessions interface {
	// Rebuild must have returned before a review is computed.
	Rebuild(ctx context.Context) error
	// Preview returns the request that a session would make. The session may be changed.
	Preview(ctx context.Context, s *v1alpha1.VDISession) (lifecycle.Preview, error)
}

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=placementreviews,verbs=list;watch;delete
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=placementreviews/status,verbs=patch

// Reconciler computes the placement of a session as a dry run, and writes the result into
// the review's status.
type Reconciler struct {
	Client  client.Client
	Members Members
	// Placement is the scheduler's.
	Placement Placement
	Sessions  Sessions
	Clock     clock.PassiveClock

	pending reviewQueue
}

// SetupWithManager registers the controller of reviews.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("placementreview").
		For(&v1alpha1.PlacementReview{}, builder.WithPredicates(r.pending.observed())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1, NewQueue: r.pending.workqueue, RateLimiter: backoff.Limiter[reconcile.Request](),
		}).
		Complete(r)
}

// Reconcile answers a review, or deletes it when its time is over.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
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
		return ctrl.Result{}, r.drop(ctx, review) // its client does not wait for it any more
	}
	answer, err := r.answer(ctx, review)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case answer == nil:
		return ctrl.Result{RequeueAfter: evaluatingPoll}, nil
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

func (r *Reconciler) drop(ctx context.Context, review *v1alpha1.PlacementReview) error {
	return client.IgnoreNotFound(r.Client.Delete(ctx, review, client.Preconditions{UID: &review.UID}))
}

// answer returns the answer to a review; nil while members have not evaluated the template yet.
func (r *Reconciler) answer(ctx context.Context, review *v1alpha1.PlacementReview) (*v1alpha1.PlacementReviewStatus, error) {
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
	p, err := r.Sessions.Preview(ctx, s)
	switch {
	case err != nil:
		return nil, err
	case p.Refused != nil:
		return refused(p.Refused.Reason, p.Refused.Message)
	case r.Members.Evaluating(p.Request.Template):
		return nil, nil
	}
	status := r.dryRun(ctx, review, p)
	status.Policy = p.Request.PolicyName
	return status, nil
}

// session returns the session of a review: the one of that name, or a hypothetical one.
// It may be changed.
func (r *Reconciler) session(ctx context.Context, review *v1alpha1.PlacementReview) (*v1alpha1.VDISession, error) {
	s := &v1alpha1.VDISession{}
	if review.Spec.Session == nil {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: review.Namespace, Name: review.Spec.SessionName}, s)
		return s, err
	}
	s.Namespace, s.Name, s.UID = review.Namespace, review.Name, review.UID
	s.Annotations, s.Labels, s.Spec = review.Annotations, review.Spec.Labels, *review.Spec.Session.DeepCopy()
	return s, nil
}

// dryRun returns the status of a review from a dry run.
func (r *Reconciler) dryRun(ctx context.Context, review *v1alpha1.PlacementReview, p lifecycle.Preview) *v1alpha1.PlacementReviewStatus {
	count, held := max(review.Spec.Count, 1), p.Held
	in := cache.DryRun{Request: p.Request, Count: count, DistinctUsers: review.Spec.DistinctUsers, Held: held != nil}
	shared := p.UserHome && !in.DistinctUsers
	if shared || held != nil && held.Reason == v1alpha1.ReasonSuspended {
		in.Count = 1 // the others wait like it, or for it
	}
	ctx, stop := context.WithTimeout(ctx, reviewTime)
	defer stop()
	status := r.Placement.Review(ctx, in)
	omit(&status)
	status.Waiting = count - status.Placed - status.NotTried
	switch {
	case held != nil:
		status.Reason, status.Message = held.Reason, held.Message
	case shared && status.Placed > 0 && status.Waiting > 0:
		status.Reason = v1alpha1.ReasonHomeInUse
		status.Message = fmt.Sprintf("the first of them has the home of %s, and the others wait until it is free: set spec.distinctUsers if they are of different users",
			p.Request.User)
	case status.NotTried > 0:
		status.Message += fmt.Sprintf("; %d of the %d were not tried: the time for a review was over", status.NotTried, count)
	}
	return &status
}
