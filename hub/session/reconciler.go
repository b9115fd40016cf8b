package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/drain"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdisessions,verbs=get;list;watch;patch;administer
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdisessions/finalizers,verbs=update
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdisessions/status,verbs=patch
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=placementpolicies,verbs=list;watch

// Reconciler implements the hub's part of a session: accept it, place it, show its member's
// health, and remove its finalizer once nothing is outstanding.
type Reconciler struct {
	// Client of the hub, which reads from its cache, and Live, which reads from its API
	// server.
	Client   client.Client
	Live     client.Reader
	Recorder events.EventRecorder
	Fleet    Fleet
	// Scheduler of sessions that wait for capacity.
	Scheduler Scheduler
	// Members by name, with their reports.
	Members multicluster.Provider
	// Orders renders the members' assignments.
	Orders     *assignment.Orders
	Proofs     *assignment.Proofs
	Revisions  *template.Revisions
	Departures *assignment.Departures
	Clock      clock.PassiveClock
	// Trace of sessions' lifecycles; nil: none.
	Trace *tracing.Tracer
	// Restores of the hub; nil: the hub is never restored.
	Restores Restores
	// Timings of sessions.
	Timings
	// Register registers every member with the fleet, before the first session is
	// reconciled; nil: the caller does.
	Register func(context.Context) error

	memory  memory.Memory
	rebuilt rebuild
	drains  drain.Tracker
	feed    feed
}

// Timings of sessions; zero values mean the defaults.
type Timings struct {
	// ForceAfter is how long members get to confirm a forced cleanup; default:
	// DefaultForceAfter.
	ForceAfter time.Duration
	// IdleAfter is how long a desktop is not used before its agent reports it as idle;
	// default: DefaultIdleAfter.
	IdleAfter time.Duration
	// MoveAfter is how long a member gets to find a node for a session's Pod before another
	// is tried; default: DefaultMoveAfter.
	MoveAfter time.Duration
}

// runs is the template and the resources of a session's current or next run.
type runs struct {
	// spec and revision of the template; nil: there is none.
	spec     *v1alpha1.TemplateSpec
	revision string
	// template is the current template, if the session is not placed yet or retried.
	template *v1alpha1.VDITemplate
	// resources that the session has or would get.
	resources corev1.ResourceList
}

// outcome of the scheduler's decision.
type outcome struct {
	// reserved is the placement that was decided on. holds is set if capacity was reserved,
	// to be released if the write fails.
	reserved *v1alpha1.Placement
	holds    bool
	decision placement.Decision
	// failedOver is set if the placement is a failover.
	failedOver bool
}

// pass is one reconcile of one session.
type pass struct {
	runs
	outcome
	// before is the session as it was read, and session the desired result.
	before, session *v1alpha1.VDISession
	// reports of the connected members on the session.
	reports []assignment.Report
	// policies are all policies, if the session is not placed yet or may move.
	policies []v1alpha1.PlacementPolicy
	// began is when the pass began.
	began time.Time
	// stays is why the session waits for the stop of an earlier placement in a lost member.
	stays string
	// home as acquireHome found it.
	home homeStep
	// sent is set once the write of the status has been tried.
	sent bool
	// hold is set if there is no decision yet, and nothing to write.
	hold bool
	// waits is the reason why the session waits for something else than capacity; empty: it
	// does not.
	waits string
	// again is after how long to reconcile again at the latest; zero: on the next event.
	again time.Duration
	// mirrored is the status with the member's report, if its write may wait for settles.
	mirrored *v1alpha1.SessionStatus
	settles  time.Duration
	// events to record once the status is written.
	events []func()
}

// next reports whether the following steps still apply.
type next bool

const (
	goOn next = true
	done next = false
)

// Reconcile updates one session.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.update(ctx, req)
	if denied.Is(err) {
		return ctrl.Result{}, r.showDenied(ctx, req.NamespacedName, err)
	}
	return backoff.OnConflict(result, err)
}

func (r *Reconciler) update(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := errors.Join(r.Rebuild(ctx), r.Proofs.Prepare(ctx)); err != nil {
		return ctrl.Result{}, err
	}
	s := &v1alpha1.VDISession{}
	if err := r.Client.Get(ctx, req.NamespacedName, s); err != nil {
		if apierrors.IsNotFound(err) {
			r.Scheduler.Forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.memory.Stale(s) {
		return ctrl.Result{RequeueAfter: memory.StaleWait}, nil
	}
	reports, err := r.reportsOf(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !s.DeletionTimestamp.IsZero() {
		r.Scheduler.Forget(req.NamespacedName)
		return r.finalize(ctx, s, reports)
	}
	return r.carryOut(ctx, &pass{before: s, session: s.DeepCopy(), reports: reports, began: r.Clock.Now()})
}

// carryOut runs the steps of a session, and writes their result.
func (r *Reconciler) carryOut(ctx context.Context, p *pass) (ctrl.Result, error) {
	err := r.steps(ctx, p)
	session := client.ObjectKeyFromObject(p.session)
	if err == nil && p.waits != "" {
		p.again = backoff.Sooner(p.again, r.Scheduler.Wait(session, p.session.UID, rankOf(p.session), p.waits))
	}
	if err == nil && !p.hold {
		if err = r.keepFinalizer(ctx, p); err == nil {
			err = r.write(ctx, p)
		}
	}
	r.Scheduler.Done(session, p.reserved != nil && err == nil, err)
	if err != nil {
		// If it is unknown whether it was written, the capacity stays reserved: the next
		// decision, or the cache, shows it.
		if p.holds && (!p.sent || rejected(err)) {
			r.Fleet.Release(p.session.UID)
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.again}, nil
}

// keepFinalizer adds the finalizer before anything of the session is placed. It patches the
// metadata alone: an update would also rewrite the user's spec, in the hub's encoding.
func (r *Reconciler) keepFinalizer(ctx context.Context, p *pass) error {
	s := p.before.DeepCopy()
	if !controllerutil.AddFinalizer(s, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, s, patch); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	r.memory.Wrote(s)
	p.before = s
	s.ObjectMeta.DeepCopyInto(&p.session.ObjectMeta)
	return nil
}

func (r *Reconciler) steps(ctx context.Context, p *pass) error {
	for _, step := range []func(context.Context, *pass) (next, error){
		r.adopt,
		r.recordEnds,
		r.failBack,
		r.skipRun,
		r.mirror,
		r.resolve,
		r.accept,
		r.mode,
		r.failover,
		r.place,
		r.rest,
		r.resume,
		r.move,
		r.leave,
		r.overlay,
	} {
		n, err := step(ctx, p)
		if err != nil {
			return err
		}
		if n == done {
			break
		}
	}
	r.conclude(p)
	return nil
}

// conclude summarizes the status, and requeues the session for its next deadline.
func (r *Reconciler) conclude(p *pass) {
	now := r.Clock.Now()
	status.Summarize(p.session, p.spec, now)
	if message, ok := status.ExpiryWarning(p.before, p.session); ok {
		p.record(r, "Warning", v1alpha1.EventExpiringSoon, "Expire", message)
	}
	if p.spec != nil {
		p.again = backoff.Sooner(p.again, status.NextDue(p.session, p.spec, now))
	}
}

// write patches the status if anything changed, and then records the events.
func (r *Reconciler) write(ctx context.Context, p *pass) error {
	before := p.before
	if equality.Semantic.DeepEqual(before.Status, p.session.Status) {
		return nil
	}
	if wait, settling := p.settling(); settling {
		p.again = backoff.Sooner(p.again, wait)
		return nil
	}
	if err := r.takeHome(ctx, before, p); err != nil {
		return err
	}
	p.sent = true
	if err := r.writeStatus(ctx, before, p.session); err != nil {
		return err
	}
	if p.reserved != nil {
		result := "placed"
		switch {
		case p.failedOver:
			result = "failedOver"
		case p.reserved.Run > 1:
			result = "resumed"
		}
		placements.WithLabelValues(result).Inc()
		r.tracePlaced(before, p, result)
		r.memory.Give(before.UID, p.reserved.Epoch)
	}
	for _, record := range p.events {
		record()
	}
	return nil
}

// writeStatus writes a status, if no other client has written the session since it was
// read, and remembers the resulting version.
func (r *Reconciler) writeStatus(ctx context.Context, before, after *v1alpha1.VDISession) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.memory.Wrote(after)
	r.wrote(ctx, before, after)
	return nil
}

// rejected reports whether the API server has responded that it wrote nothing.
func rejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}
