package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

const (
	// DefaultInterval is the minimum time between two updates, and so between two
	// writes of a policy's status.
	DefaultInterval = 10 * time.Second
	// The interval divided by batchShare is how long a burst of changes is collected.
	batchShare = 10
	// An update is followed by a pause of idleFactor times its duration, writes
	// excluded: in a large fleet it costs no more than this share of a core.
	idleFactor = 50
	// maxSampled is how many placed sessions of a policy an update evaluates. If there
	// are more, they are sampled by their UIDs, and the result is scaled up.
	maxSampled = 500
)

// Revisions provides the template revisions of sessions.
type Revisions interface {
	// Spec returns the spec of a revision, which must not be changed.
	Spec(ctx context.Context, template, revision string) (*v1alpha1.TemplateSpec, error)
}

// Placement computes where sessions would be placed.
type Placement interface {
	// Misplaced counts the requests that would be placed in another member than their own
	// now, or returns false if that cannot be determined now.
	Misplaced(ctx context.Context, requests []placement.Request) (int, bool)
}

// Members are the members of the fleet.
type Members interface {
	// Listen calls a function on every change of a member or of a policy's free caps.
	Listen(func(member.Change))
}

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=placementpolicies/status,verbs=patch

// Reconciler updates the status of policies. All policies share one request, since an edit
// of one changes what others govern.
type Reconciler struct {
	Client client.Client
	// Sessions in the hub's cache.
	Sessions index.Sessions
	Members  Members
	// Placement is the scheduler's cache.
	Placement Placement
	Revisions Revisions
	Clock     clock.PassiveClock
	// Interval is the minimum time between two updates. Zero means DefaultInterval.
	Interval time.Duration

	// queued is set while an update is queued.
	queued atomic.Bool
	// notBefore is the earliest time of the next update. Members reconnect to a new leader
	// during the interval before the first one. Used by one goroutine only.
	notBefore time.Time
	// writeTime is how long the writes of an update took. Used by one goroutine only.
	writeTime time.Duration
}

var allPolicies = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	queueUpdate := func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if r.queued.CompareAndSwap(false, true) {
			q.AddAfter(allPolicies, r.interval()/batchShare)
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	onChange := handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { queueUpdate(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { queueUpdate(q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if relevant(e.ObjectOld, e.ObjectNew) {
				queueUpdate(q)
			}
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("placementpolicy").
		Watches(&v1alpha1.PlacementPolicy{}, onChange).
		Watches(&v1alpha1.VDISession{}, onChange).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.Members.Listen(func(member.Change) { queueUpdate(q) })
			return nil
		})).
		WithOptions(controller.Options{RateLimiter: backoff.Limiter[reconcile.Request]()}).
		Complete(r)
}

// relevant reports whether a change of a policy or session can change a policy's status.
func relevant(before, after client.Object) bool {
	if before.GetGeneration() != after.GetGeneration() || before.GetResourceVersion() == after.GetResourceVersion() {
		return true
	}
	old, isSession := before.(*v1alpha1.VDISession)
	if !isSession {
		return false
	}
	s := after.(*v1alpha1.VDISession)
	was, is := ptr.Deref(old.Status.Placement, v1alpha1.Placement{}), ptr.Deref(s.Status.Placement, v1alpha1.Placement{})
	return was.ClusterUID != is.ClusterUID || was.Idle != is.Idle || pending(old) != pending(s) || !maps.Equal(old.Labels, s.Labels)
}

// Reconcile updates the status of every policy.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	r.queued.Store(false)
	began := r.Clock.Now()
	if r.notBefore.IsZero() {
		r.notBefore = began.Add(r.interval())
	}
	if wait := r.notBefore.Sub(began); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.writeTime = 0
	err := r.update(ctx)
	ended := r.Clock.Now()
	r.notBefore = ended.Add(max(r.interval(), idleFactor*(ended.Sub(began)-r.writeTime)))
	return backoff.OnConflict(ctrl.Result{}, err)
}

func (r *Reconciler) interval() time.Duration { return cmp.Or(r.Interval, DefaultInterval) }

func (r *Reconciler) update(ctx context.Context) error {
	policies := &v1alpha1.PlacementPolicyList{}
	if err := r.Client.List(ctx, policies); err != nil {
		return fmt.Errorf("listing placement policies: %w", err)
	}
	if len(policies.Items) == 0 {
		return nil
	}
	for policy, g := range usageBy(policies.Items, r.Sessions.All()) {
		if err := r.write(ctx, policy, g); err != nil {
			return err
		}
	}
	return nil
}

// write writes a policy's status if it changed.
func (r *Reconciler) write(ctx context.Context, policy *v1alpha1.PlacementPolicy, g *usage) error {
	after := policy.DeepCopy()
	shown := &after.Status
	shown.Sessions, shown.Placed, shown.Waiting = g.sessions, int32(len(g.placed)), g.waiting //nolint:gosec // no hub holds billions
	if n, ok := r.wouldMove(ctx, policy, g.placed); ok {
		shown.Elsewhere = n
	}
	shown.LastReviewTime = policy.Status.LastReviewTime
	if *shown == policy.Status && shown.LastReviewTime != nil {
		return nil
	}
	began := r.Clock.Now()
	defer func() { r.writeTime += r.Clock.Since(began) }()
	now := status.Seconds(began)
	shown.LastReviewTime = &now
	patch := client.MergeFromWithOptions(policy, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, after, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of policy %s: %w", policy.Name, err)
	}
	return nil
}
