package session

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
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
)

const (
	// DefaultPolicyInterval is the least time between two looks at what the
	// policies govern, and so between two writes of a policy's status.
	DefaultPolicyInterval = 10 * time.Second
	// settleShare of the interval gathers a burst of changes into one look.
	settleShare = 10
	// restShare: after a look it rests for as many times what that took, writes
	// apart, so that in a large fleet it costs no more than this share of a core.
	restShare = 50
	// judgedMost is how many sessions of a policy are judged in one look. Where it
	// has placed more, as many are drawn by a hash of their UIDs, always the same,
	// and the number of those that would go elsewhere is scaled up.
	judgedMost = 500
)

// Appraiser is what the status of policies needs of the fleet.
type Appraiser interface {
	// Elsewhere counts the sessions that would be placed in another member today;
	// false: that can't be told now.
	Misplaced(ctx context.Context, requests []placement.Request) (int, bool)
	// Listen tells of every change of a member or a policy's room.
	Listen(func(member.Change))
}

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=placementpolicies/status,verbs=patch

// PolicyReconciler shows on each policy how many sessions it governs, and how
// many of them would be placed elsewhere today. It moves nothing.
//
// All policies share one request, for an edit of one changes what others govern.
type PolicyReconciler struct {
	Client    client.Client
	Fleet     Appraiser
	Revisions *Revisions
	Clock     clock.PassiveClock
	// Interval between two looks at the least; zero: DefaultPolicyInterval.
	Interval time.Duration

	// asked is whether a look is due already.
	asked atomic.Bool
	// resting is until when there is none: at first for an interval, in which the
	// members come back to a new leader. One goroutine alone uses it.
	resting time.Time
	// writing is how long the writes of a look took. Likewise.
	writing time.Duration
}

var allPolicies = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

// SetupWithManager registers the controller of policies.
func (r *PolicyReconciler) SetupWithManager(mgr ctrl.Manager) error {
	ask := func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if r.asked.CompareAndSwap(false, true) {
			q.AddAfter(allPolicies, r.interval()/settleShare)
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	onChange := handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { ask(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { ask(q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if matters(e.ObjectOld, e.ObjectNew) {
				ask(q)
			}
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("placementpolicy").
		Watches(&v1alpha1.PlacementPolicy{}, onChange).
		Watches(&v1alpha1.VDISession{}, onChange).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.Fleet.Listen(func(member.Change) { ask(q) })
			return nil
		})).
		WithOptions(controller.Options{RateLimiter: backoff.Limiter[reconcile.Request]()}).
		Complete(r)
}

// matters is whether a change of a policy or a session can change what is shown.
func matters(before, after client.Object) bool {
	if before.GetGeneration() != after.GetGeneration() || before.GetResourceVersion() == after.GetResourceVersion() {
		return true
	}
	old, isSession := before.(*v1alpha1.VDISession)
	if !isSession {
		return false
	}
	s := after.(*v1alpha1.VDISession)
	at := func(s *v1alpha1.VDISession) v1alpha1.Placement {
		if s.Status.Placement == nil {
			return v1alpha1.Placement{}
		}
		return *s.Status.Placement
	}
	return at(old).ClusterUID != at(s).ClusterUID || at(old).Idle != at(s).Idle || waits(old) != waits(s) ||
		!maps.Equal(old.Labels, s.Labels)
}

// Reconcile brings the status of every policy up to date.
func (r *PolicyReconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	r.asked.Store(false)
	began := r.Clock.Now()
	if r.resting.IsZero() {
		r.resting = began.Add(r.interval())
	}
	if wait := r.resting.Sub(began); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.writing = 0
	err := r.look(ctx)
	ended := r.Clock.Now()
	r.resting = ended.Add(max(r.interval(), restShare*(ended.Sub(began)-r.writing)))
	return unlessConflict(ctrl.Result{}, err)
}

func (r *PolicyReconciler) interval() time.Duration {
	if r.Interval > 0 {
		return r.Interval
	}
	return DefaultPolicyInterval
}

func (r *PolicyReconciler) look(ctx context.Context) error {
	policies := &v1alpha1.PlacementPolicyList{}
	if err := r.Client.List(ctx, policies); err != nil {
		return fmt.Errorf("listing placement policies: %w", err)
	}
	if len(policies.Items) == 0 {
		return nil
	}
	sessions := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, sessions, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing sessions: %w", err)
	}
	for policy, g := range governedBy(policies.Items, sessions.Items) {
		if err := r.show(ctx, policy, g); err != nil {
			return err
		}
	}
	return nil
}

// governed is what a policy governs.
type governed struct {
	sessions, waiting int32
	// placed are those that have a member. They are the cache's own.
	placed []*v1alpha1.VDISession
}

// governedBy is what each policy governs, of sessions that are not being deleted.
func governedBy(policies []v1alpha1.PlacementPolicy, sessions []v1alpha1.VDISession) map[*v1alpha1.PlacementPolicy]*governed {
	out := make(map[*v1alpha1.PlacementPolicy]*governed, len(policies))
	for i := range policies {
		out[&policies[i]] = &governed{}
	}
	order := precedenceOf(policies)
	for i := range sessions {
		s := &sessions[i]
		policy, _ := order.governing(s)
		if policy == nil || !s.DeletionTimestamp.IsZero() {
			continue
		}
		g := out[policy]
		g.sessions++
		switch {
		case s.Status.Placement != nil:
			g.placed = append(g.placed, s)
		case waits(s):
			g.waiting++
		}
	}
	return out
}

// waits is whether a session has no member and wants one, and may have it.
func waits(s *v1alpha1.VDISession) bool {
	return s.Status.Placement == nil && s.Spec.OperatingMode != v1alpha1.ModeSuspended && s.DeletionTimestamp.IsZero() &&
		(s.Status.Phase == "" || s.Status.Phase == v1alpha1.PhasePending) &&
		!meta.IsStatusConditionFalse(s.Status.Conditions, v1alpha1.ConditionAccepted)
}

// show writes a policy's status, if it has changed.
func (r *PolicyReconciler) show(ctx context.Context, policy *v1alpha1.PlacementPolicy, g *governed) error {
	after := policy.DeepCopy()
	status := &after.Status
	status.Sessions, status.Placed, status.Waiting = g.sessions, int32(len(g.placed)), g.waiting //nolint:gosec // no hub holds billions
	if n, ok := r.elsewhere(ctx, policy, g.placed); ok {
		status.Elsewhere = n
	}
	status.LastReviewTime = policy.Status.LastReviewTime
	if *status == policy.Status && status.LastReviewTime != nil {
		return nil
	}
	began := r.Clock.Now()
	defer func() { r.writing += r.Clock.Since(began) }()
	now := seconds(began)
	status.LastReviewTime = &now
	patch := client.MergeFromWithOptions(policy, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, after, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of policy %s: %w", policy.Name, err)
	}
	return nil
}

// elsewhere is how many of the sessions that a policy governs and that are
// placed would be placed elsewhere today; false: it can't be told now. One whose
// home is where it is stays there.
func (r *PolicyReconciler) elsewhere(ctx context.Context, policy *v1alpha1.PlacementPolicy, placed []*v1alpha1.VDISession) (int32, bool) {
	drawn := draw(placed, judgedMost)
	requests := make([]placement.Request, 0, len(drawn))
	for _, s := range drawn {
		if req, ok := r.anew(ctx, s, policy); ok {
			requests = append(requests, req)
		}
	}
	n, ok := r.Fleet.Misplaced(ctx, requests)
	if !ok || len(drawn) == 0 {
		return 0, ok
	}
	return int32((n*len(placed) + len(drawn)/2) / len(drawn)), true //nolint:gosec // no more than are placed
}

// anew asks where a session would be placed today; false: nowhere else, for its
// home is where it is, or its template is not known any more.
func (r *PolicyReconciler) anew(ctx context.Context, s *v1alpha1.VDISession, policy *v1alpha1.PlacementPolicy) (placement.Request, bool) {
	spec, err := r.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil || hasHome(spec) || s.Status.Home != nil {
		return placement.Request{}, false
	}
	req := requestOf(s, spec, s.Status.TemplateRevision, policy)
	req.Resources = placement.ResourcesOf(s.Status.Resources)
	req.Seat = &placement.Seat{Cluster: s.Status.Placement.ClusterUID, Taken: !s.Status.Placement.Idle}
	return req, true
}

// draw takes at most so many of the sessions: those of the lowest hash, which
// are the same each time for as long as the sessions are.
func draw(sessions []*v1alpha1.VDISession, most int) []*v1alpha1.VDISession {
	if len(sessions) <= most {
		return sessions
	}
	type lot struct {
		hash    uint64
		session *v1alpha1.VDISession
	}
	lots, seed := make([]lot, 0, len(sessions)), fnv.New64a()
	for _, s := range sessions {
		seed.Reset()
		_, _ = seed.Write([]byte(s.UID)) // it never fails
		lots = append(lots, lot{seed.Sum64(), s})
	}
	slices.SortFunc(lots, func(a, b lot) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.session.UID, b.session.UID))
	})
	out := make([]*v1alpha1.VDISession, 0, most)
	for _, l := range lots[:most] {
		out = append(out, l.session)
	}
	return out
}
