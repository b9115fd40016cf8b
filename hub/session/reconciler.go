package session

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/drain"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdisessions,verbs=get;list;watch;patch;administer
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdisessions/finalizers,verbs=update
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=vdisessions/status,verbs=update
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=placementpolicies,verbs=list;watch

// Reconciler implements the hub's part of a session: accept it, place it, show its member's
// health, and remove its finalizer once nothing is outstanding.
type Reconciler struct {
	// Client of the hub, which reads from its cache, and Live, which reads from its API
	// server.
	Client client.Client
	Live   client.Reader
	// Cached are the sessions in the hub's cache.
	Cached   index.Sessions
	Recorder events.EventRecorder
	Fleet    Fleet
	// Scheduler of sessions that wait for capacity, and its reservations.
	Scheduler    Scheduler
	Reservations Reservations
	// Members by name, with their reports.
	Members multicluster.Provider
	// Orders renders the members' assignments.
	Orders     *assignment.Orders
	Departures *assignment.Departures
	Clock      clock.PassiveClock
	// Restores of the hub; nil if the hub is never restored.
	Restores Restores
	// Timings of sessions.
	Timings lifecycle.Timings
	// Console is the address of the console, without a path; empty if there is none.
	Console string
	// Register registers every member with the fleet, before the first session is
	// reconciled; nil if the caller does.
	Register func(context.Context) error

	// settled are sessions for which nothing is known to be left to do.
	settled  *bulk.Feed[reconcile.Request]
	memory   memory.Memory
	drains   drain.Tracker
	prepared policy.Prepared
	rebuilt  rebuilt
}

// rebuilt is done once the reservations were rebuilt.
type rebuilt struct {
	sync.Mutex
	done bool
}

// Reconcile updates one session.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.update(ctx, req)
	if denied.Is(err) {
		return ctrl.Result{}, r.showDenied(ctx, req.NamespacedName, err)
	}
	return backoff.OnConflict(result, err)
}

func (r *Reconciler) update(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := errors.Join(r.Rebuild(ctx), r.Orders.Proofs.Prepare(ctx)); err != nil {
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
	g := gatherer{r}
	reports, err := g.reportsOf(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !s.DeletionTimestamp.IsZero() {
		r.Scheduler.Forget(req.NamespacedName)
		if !controllerutil.ContainsFinalizer(s, v1alpha1.Finalizer) {
			return ctrl.Result{}, nil
		}
	}
	return r.execute(ctx, g, s, reports)
}

// execute computes the plan of a session, and executes it.
func (r *Reconciler) execute(ctx context.Context, g gatherer, s *v1alpha1.VDISession, reports []*assignment.Report) (ctrl.Result, error) {
	var plan lifecycle.Plan
	var a attempt
	in, err := g.gather(ctx, s, reports)
	if err == nil {
		g.track(in)
	}
	kept := false
	if err == nil {
		plan, a.reserved = r.decide(g, in)
		keeping := g.keepFirstSecret(ctx, s, &plan)
		err = r.apply(ctx, in, &plan, &a)
		kept = keeping != nil && keeping() == nil
	}
	if s.DeletionTimestamp.IsZero() {
		r.Scheduler.Done(client.ObjectKeyFromObject(s), plan.Placed != nil && err == nil, err)
	}
	if err != nil {
		// If it is unknown whether the status was written, the capacity stays reserved
		// until the next decision, or the cache, shows it.
		if a.reserved && (!a.sent || rejected(err)) {
			r.Reservations.Release(s.UID)
		}
		return ctrl.Result{}, err
	}
	if plan.Placed != nil && !kept {
		// The assignment waits for it. The next pass does the same, and shows why it fails.
		if err := g.keepSecret(ctx, plan.Session); err != nil {
			log.FromContext(ctx).V(1).Info("The access secret is not made yet", "cause", err.Error())
		}
	}
	return ctrl.Result{RequeueAfter: plan.Again}, nil
}

// decide returns the plan of a session, and whether the scheduler has reserved capacity for
// it.
func (r *Reconciler) decide(g gatherer, in *lifecycle.Input) (plan lifecycle.Plan, reserved bool) {
	plan = lifecycle.Next(in)
	request := plan.Request
	switch {
	case request == nil:
		return plan, false
	case request.Evaluate && r.Fleet.Evaluating(request.Placement.Template):
		plan.Again = evaluationPoll
		return plan, false
	case request.Evict != nil && !r.mayEvict(in.Session, *request.Evict):
		return plan, false // it is enqueued when the budget allows it
	}
	request.Session, request.Rank = client.ObjectKeyFromObject(plan.Session), rankOf(plan.Session)
	request.Shown = status.ShowsPending(in.Session)
	answer, ok := r.Scheduler.Decide(&request.Request)
	if !ok {
		plan.Again = backoff.Sooner(plan.Again, answer.Again)
		return plan, false
	}
	in.Answer = &answer
	if answer.Placed {
		in.Members[answer.Cluster.UID] = g.Fleet.State(answer.Cluster.UID)
	}
	return lifecycle.Next(in), answer.Placed || answer.Other != nil && answer.Other.Placed
}

// evaluationPoll is how often a session checks whether the members have evaluated its
// template, which takes them a moment when it is new.
const evaluationPoll = 50 * time.Millisecond

// rejected reports whether the API server has responded that it wrote nothing.
func rejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

// Preview returns the request that a session would make if it were placed now. Nothing is
// written or reserved.
func (r *Reconciler) Preview(ctx context.Context, s *v1alpha1.VDISession) (lifecycle.Preview, error) {
	in, err := gatherer{r}.gather(ctx, s, nil)
	if err != nil {
		return lifecycle.Preview{}, err
	}
	return lifecycle.PreviewOf(in)
}

// DeclaredFenced reports whether an operator declared a member fenced.
func (r *Reconciler) DeclaredFenced(member types.UID) bool {
	return lifecycle.DeclaredFenced(r.Fleet.State(member).Failover)
}
