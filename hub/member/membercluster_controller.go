package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters,verbs=list;watch;patch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=memberclusters/status,verbs=update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=vdi-system,resources=leases,verbs=get;create;update;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=events,verbs=create

// Reconciler maintains a MemberCluster's status, finalizer and heartbeat.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Fleet    *Fleet
	// Namespace of the heartbeat Leases.
	Namespace string
	// HeldIn counts the sessions that, according to the hub, are placed in a member or not
	// confirmed as stopped there.
	HeldIn func(member v1alpha1.ClusterRef) Held

	// written and renewed space the writes of each member's status and heartbeat.
	written, renewed backoff.Pace[types.UID]
	// blocked has the last announced blockage of each member, by name.
	blocked sync.Map
	// listed are the last lists of templates for the status of each member, by name.
	listed sync.Map
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := r.Fleet.timings.Validate(); err != nil {
		return err
	}
	memberMetrics.fleet.Store(r.Fleet)
	if err := mgr.Add(manager.RunnableFunc(r.Fleet.watchHealth)); err != nil {
		return fmt.Errorf("adding the check of the members' health: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("membercluster").
		For(&v1alpha1.MemberCluster{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, identityChanged))).
		WatchesRawSource(r.changes()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2, RateLimiter: backoff.Limiter[reconcile.Request]()}).
		Complete(r)
}

// identityChanged passes updates of a status by enrollment and certificate rotation.
var identityChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.MemberCluster)
	after, same := e.ObjectNew.(*v1alpha1.MemberCluster)
	return ok && same && (before.Status.Fingerprint != after.Status.Fingerprint ||
		!equality.Semantic.DeepEqual(before.Status.Certificate, after.Status.Certificate))
}}

// changes enqueues a member whenever the fleet reports a change of it.
func (r *Reconciler) changes() source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.Fleet.Listen(func(c Change) {
			if c.Kind != PolicyCapacity {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: c.Member}})
			}
		})
		return nil
	})
}

// RegisterAll registers every member, before the hub begins to listen: an agent of a
// member that is not registered yet would be refused.
func (r *Reconciler) RegisterAll(ctx context.Context) error {
	list := &v1alpha1.MemberClusterList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("registering the members: %w", err)
	}
	for i := range list.Items {
		r.Fleet.Register(&list.Items[i])
	}
	return nil
}

// Reconcile brings one MemberCluster up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.update(ctx, req)
	return backoff.OnConflict(result, err)
}

func (r *Reconciler) update(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// What it points to is the cache's, and never changed: it lists up to 100 templates, and
	// most reconciles write nothing.
	mc := &v1alpha1.MemberCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, mc, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.Fleet.Remove(req.Name)
			r.blocked.Delete(req.Name)
			r.listed.Delete(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.Fleet.Register(mc) {
		return ctrl.Result{RequeueAfter: backoff.ConflictDelay}, nil // the cache lags
	}
	r.Fleet.show(mc.Name)
	v, ok := r.Fleet.viewOf(mc.Name)
	if !ok {
		return ctrl.Result{}, nil
	}
	lowered, exceeded := r.Fleet.popEvents(mc.Name)
	if lowered != "" {
		r.Recorder.Eventf(mc, nil, corev1.EventTypeWarning, v1alpha1.EventOlderAgent, "Watch", "%s", lowered)
	}
	if exceeded != "" {
		r.Recorder.Eventf(mc, nil, corev1.EventTypeWarning, v1alpha1.EventExcess, "Watch", "%s", exceeded)
	}
	mc, done, err := r.finalize(ctx, mc, v)
	if done || err != nil {
		return ctrl.Result{}, err
	}
	// A status that the API server refuses must not block the others: an agent waits for
	// unfence, and operators check the heartbeat.
	mc, wait, notWritten := r.status(ctx, mc, v)
	notUnfenced := r.unfence(ctx, mc, v)
	beat, notBeaten := r.heartbeat(ctx, mc, v)
	if err := errors.Join(notWritten, notUnfenced, notBeaten); err != nil {
		return ctrl.Result{}, err
	}
	due := v.buffers.wait(r.Fleet.clock.Now())
	return ctrl.Result{RequeueAfter: health.Soonest(wait, beat, v.Recheck, due, validUntil(mc.Status.Certificate).Sub(v.now))}, nil
}

// locked returns a patch of the changes to an object, which fails if another client has
// written it meanwhile.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// status writes what changed. Health, identity and certificate are written at once; counts,
// and the state of the stream, at most once per backoff.StatusIntervalOf all members. It returns
// the object that is in the API server then.
func (r *Reconciler) status(ctx context.Context, mc *v1alpha1.MemberCluster, v view) (now *v1alpha1.MemberCluster, wait time.Duration, err error) {
	v.listed = r.templatesOf(mc.Name, v)
	after := withStatus(mc, v)
	if equality.Semantic.DeepEqual(&mc.Status, &after.Status) {
		return mc, 0, nil
	}
	at := r.Fleet.clock.Now()
	if !pressing(&mc.Status, &after.Status) {
		if wait := r.written.Wait(mc.UID, at); wait > 0 {
			return mc, wait, nil
		}
	}
	after.Status.Templates = slices.Clone(after.Status.Templates) // the answer is decoded into it
	if err := r.Client.Status().Update(ctx, after); err != nil {
		return mc, 0, fmt.Errorf("writing the status: %w", err)
	}
	r.written.Took(mc.UID, at, backoff.StatusIntervalOf(v.members))
	r.announce(mc, after)
	r.announceDrain(mc, after)
	r.announceFenced(mc, after)
	r.announceNodeGroups(mc, after)
	return after, 0, nil
}

// withStatus returns a copy with the status of a view. It shares the list of templates with the
// original, or with the view.
func withStatus(mc *v1alpha1.MemberCluster, v view) *v1alpha1.MemberCluster {
	others := *mc
	others.Status.Templates = nil
	after := others.DeepCopy()
	after.Status.Templates = mc.Status.Templates
	writeStatus(&after.Status, v, mc.Generation)
	return after
}

// pressing reports whether a change of a status can't wait.
func pressing(before, after *v1alpha1.MemberClusterStatus) bool {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionEnrolled, v1alpha1.ConditionFenced} {
		was, is := conditionIn(before, kind), conditionIn(after, kind)
		if was.Reason != is.Reason || was.Status != is.Status {
			return true
		}
	}
	return drainPressing(before, after) || groupsPressing(before, after) || before.HubCluster != after.HubCluster || before.Fingerprint != after.Fingerprint || before.AgentVersion != after.AgentVersion || before.Door != after.Door ||
		!equality.Semantic.DeepEqual(before.Restrictions, after.Restrictions) ||
		!equality.Semantic.DeepEqual(before.Certificate, after.Certificate)
}

// conditionIn returns a condition of a status, or the zero condition.
func conditionIn(status *v1alpha1.MemberClusterStatus, kind string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(status.Conditions, kind), metav1.Condition{})
}

// announce records an event when Ready changed, and when Enrolled did, unless the first
// event has the same reason.
func (r *Reconciler) announce(before, after *v1alpha1.MemberCluster) {
	reported := ""
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionEnrolled} {
		was, is := conditionIn(&before.Status, kind), conditionIn(&after.Status, kind)
		severity := corev1.EventTypeNormal
		if is.Status != metav1.ConditionTrue {
			severity = corev1.EventTypeWarning
		}
		redundant := kind == v1alpha1.ConditionEnrolled &&
			(was.Reason == "" || reported == is.Reason || (reported != "" && severity == corev1.EventTypeNormal))
		if redundant || was.Reason == is.Reason {
			continue
		}
		reported = is.Reason
		r.Recorder.Eventf(after, nil, severity, is.Reason, "Watch", "%s", is.Message)
	}
}

// heartbeat renews the member's Lease object while its agent is alive, so that its last
// heartbeat is visible in the API.
func (r *Reconciler) heartbeat(ctx context.Context, mc *v1alpha1.MemberCluster, v view) (time.Duration, error) {
	if v.State != health.Ready { // one that is Ready has sent a heartbeat to this hub
		return 0, nil
	}
	now, every := r.Fleet.clock.Now(), max(r.Fleet.timings.Heartbeat, backoff.LeaseIntervalOf(v.members))
	// Those of a large fleet have a time of their own: its members connect to a new leader all at once.
	more := every - r.Fleet.timings.Heartbeat
	first := v.ledSince.Add(backoff.Share(string(mc.UID), more))
	if wait := max(r.renewed.Wait(mc.UID, now), first.Sub(now)); wait > 0 {
		return wait, nil
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "member-" + mc.Name}}
	before := lease.DeepCopy()
	lease.Spec.HolderIdentity = ptr.To(v.fingerprint)
	// The next leader may write it as late as its first interval ends.
	lease.Spec.LeaseDurationSeconds = ptr.To(int32((r.Fleet.timings.Unreachable + 2*more).Seconds() + 1))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: v.lastHeartbeat}
	// The patch sets all three, whatever they are: the Lease is not read, and not in the cache.
	err := r.Client.Patch(ctx, lease, client.MergeFrom(before))
	if apierrors.IsNotFound(err) {
		if err = controllerutil.SetOwnerReference(mc, lease, r.Client.Scheme()); err == nil {
			err = r.Client.Create(ctx, lease)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("renewing the heartbeat: %w", err)
	}
	r.renewed.Took(mc.UID, now, every)
	return every, nil
}

// exhausted returns the exhausted node groups of a status, by name.
func exhausted(status *v1alpha1.MemberClusterStatus) map[string]*v1alpha1.NodeGroupStatus {
	out := map[string]*v1alpha1.NodeGroupStatus{}
	for i := range status.NodeGroups {
		if g := &status.NodeGroups[i]; g.State == v1alpha1.NodeGroupExhausted {
			out[g.Name] = g
		}
	}
	return out
}

// groupsPressing reports whether a node group became exhausted or no longer is.
func groupsPressing(before, after *v1alpha1.MemberClusterStatus) bool {
	return !maps.EqualFunc(exhausted(before), exhausted(after), func(_, _ *v1alpha1.NodeGroupStatus) bool { return true })
}

// announceNodeGroups records an event for each node group that became exhausted, also for another reason than
// before, or that adds nodes again.
func (r *Reconciler) announceNodeGroups(before, after *v1alpha1.MemberCluster) {
	was, is := exhausted(&before.Status), exhausted(&after.Status)
	for i := range after.Status.NodeGroups {
		g := &after.Status.NodeGroups[i]
		_, now := is[g.Name]
		earlier := was[g.Name]
		switch {
		case now && (earlier == nil || earlier.Reason != g.Reason):
			r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, v1alpha1.EventNodeGroupExhausted, "Watch", "%s", exhaustedNote(g))
		case earlier != nil && (g.State == v1alpha1.NodeGroupAvailable || g.State == v1alpha1.NodeGroupFull):
			r.Recorder.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.EventNodeGroupRecovered, "Watch",
				"node group %s adds nodes again: it has %d, is adding %d, and may add %d more", g.Name, g.Nodes, g.Provisioning, g.Growable)
		}
	}
}

// maxNote bounds the message of a node group in an event, whose note is at most 1 KiB, in bytes.
const maxNote = 500

// exhaustedNote describes an exhausted node group.
func exhaustedNote(g *v1alpha1.NodeGroupStatus) string {
	note := fmt.Sprintf("node group %s adds no node: %s", g.Name, g.Reason)
	if g.Message != "" {
		note += ", " + convert.Truncated(g.Message, maxNote)
	}
	if g.RetryTime != nil {
		note += fmt.Sprintf("; next attempt at %s", g.RetryTime.UTC().Format("15:04 MST"))
	}
	return note
}
