package assignment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Members is the part of the fleet that the assignment controller uses.
type Members interface {
	// RefOf returns the permanent reference of the member that has a name now.
	RefOf(name string) (v1alpha1.ClusterRef, bool)
	// State returns the state of a member.
	State(member types.UID) member.State
	// Reported returns the assignments that a member reports, each with whether it is active.
	Reported(name string) map[types.NamespacedName]bool
	// Listen calls the listener on every change of a member.
	Listen(func(member.Change))
	// Recovering reports whether the hub was restored from a backup and waits for its
	// members' reports.
	Recovering() bool
	// MayWithdraw reports whether a member may be ordered to stop an assignment although
	// no durable record gives a cause. Withdrawn records that none is left.
	MayWithdraw(member, session types.UID) bool
	Withdrawn(member, session types.UID)
}

// Reservations are the scheduler's reservations of capacity.
type Reservations interface {
	// Ordered sets the hash of the assignment of an epoch in a member.
	Ordered(session types.UID, epoch int64, member types.UID, hash string)
}

// Sessions is the part of the session controller that the assignment controller uses.
type Sessions interface {
	// Enqueue enqueues a session of which a member reports a change.
	Enqueue(session types.NamespacedName)
	// EnqueueSettled does so at a limited rate, since the session already shows the report.
	EnqueueSettled(session types.NamespacedName)
	// Claimed enqueues a session that a member proves to have, contrary to the session's status.
	Claimed(s *v1alpha1.VDISession, member string)
	// LastEpoch returns the last epoch of a session that this process has stored, or 0.
	LastEpoch(session types.UID) int64
	// LastAssigned returns the highest epoch that the hub may have assigned to a session before
	// its last restore, or 0 if no restore since the session's creation was detected.
	LastAssigned(s *v1alpha1.VDISession) int64
}

// Reconciler makes members' assignments match the sessions' status: for one assignment of
// one member it compares the desired with the reported state, and assigns or withdraws. It
// writes nothing on the hub: the session controller mirrors reports.
type Reconciler struct {
	// Client reads from the hub's cache, Live from its API server.
	Client, Live client.Reader
	// Cached are the sessions in the hub's cache.
	Cached index.Sessions
	// Clusters are the members by name.
	Clusters     multicluster.Provider
	Fleet        Members
	Reservations Reservations
	Sessions     Sessions
	Orders       *Orders
	// Departures of sessions whose finalizer was removed by hand.
	Departures *Departures
	Clock      clock.PassiveClock

	// resends limits how often orders are sent again for missing Secrets, by session.
	resends backoff.Pace[types.UID]
}

// workers is the number of concurrent reconciles. They wait for locks only.
const workers = 16

// unfitRetry is how often rendering is retried after it failed: the hub may not watch what
// the remedy changes.
const unfitRetry = 30 * time.Second

// visit is one reconcile of one assignment.
type visit struct {
	// Report of the member.
	Report
	member client.Client
	// session of the hub, or nil.
	session *v1alpha1.VDISession
	// departed is the UID of a session that was deleted without its finalizer, or "".
	departed types.UID
	// order of the session if it is placed in this member, or nil.
	order *Order
}

// desired returns what the session's status requires of the member.
func (v *visit) desired() status.Desired {
	if v.session == nil {
		return status.Desired{}
	}
	return status.DesiredIn(v.session, v.Ref.UID)
}

// Reconcile plans the next step for one assignment, and executes it.
func (r *Reconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
	return backoff.OnConflict(r.update(ctx, req))
}

func (r *Reconciler) update(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
	if err := r.Orders.Proofs.Prepare(ctx); err != nil {
		return ctrl.Result{}, err
	}
	v, err := r.visit(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if v.desired().Run {
		v.order, err = r.Orders.For(ctx, v.session, v.Ref)
	}
	var unfit *secret.NotAssignableError
	switch {
	case err == nil, v.Assignment != nil && status.Ended(v.Assignment) && v.Assignment.Spec.Epoch >= v.session.Status.Placement.Epoch:
		// The member has ended the current placement: there is nothing to assign, but an end
		// to record.
	case errors.Is(err, secret.ErrNotKept):
		return ctrl.Result{}, nil // the session controller makes it, and its event comes here
	case errors.As(err, &unfit):
		// The session controller shows it.
		return ctrl.Result{RequeueAfter: unfitRetry}, nil
	default:
		return ctrl.Result{}, err
	}
	return r.act(ctx, req, v)
}

// visit gathers the desired and the reported state of an assignment.
func (r *Reconciler) visit(ctx context.Context, req mcreconcile.Request) (*visit, error) {
	cl, err := r.Clusters.Get(ctx, req.ClusterName)
	if err != nil {
		return nil, err
	}
	v := &visit{member: cl.GetClient()}
	var known bool
	if v.Ref, known = r.Fleet.RefOf(string(req.ClusterName)); !known {
		return nil, multicluster.ErrClusterNotFound
	}
	s := r.Cached.ByAssignment(req.NamespacedName) // the cache's, and never changed here
	reported, err := Reported(ctx, v.member, req.NamespacedName)
	if err != nil {
		return nil, err
	}
	v.Proven = r.Orders.Proofs.Proves(s, v.Ref.UID, reported)
	v.session, v.Assignment = Attribute(s, v.Ref.UID, reported, v.Proven)
	if v.session != s || v.Assignment != reported {
		unprovenReports.Inc()
	}
	return v, nil
}

// act decides on a step and executes it.
func (r *Reconciler) act(ctx context.Context, req mcreconcile.Request, v *visit) (ctrl.Result, error) {
	step, epoch := r.decide(req, v)
	if step == Withdraw && v.contested() {
		r.Sessions.Claimed(v.session, v.Ref.Name)
	}
	step, waits := InRecovery(r.Fleet.Recovering(), v.session, v.Ref, v.Assignment, step)
	log.FromContext(ctx).V(1).Info("Planned", "step", step, "epoch", epoch, "assignment", req.NamespacedName)
	if v.order != nil {
		r.Reservations.Ordered(v.session.UID, v.order.Assignment.Spec.Epoch, v.Ref.UID, v.order.Hash)
		r.Fleet.Withdrawn(v.Ref.UID, v.session.UID)
	}
	result, err := r.execute(ctx, req, v, step, epoch)
	if waits {
		result.RequeueAfter = backoff.Sooner(result.RequeueAfter, RecoveryPoll)
	}
	return result, err
}

func (r *Reconciler) execute(ctx context.Context, req mcreconcile.Request, v *visit, step Step, epoch int64) (ctrl.Result, error) {
	switch step {
	case None, RecordStopped, RecordRefused:
		return ctrl.Result{}, nil
	case Mirror:
		r.resends.Forget(v.session.UID)
		return ctrl.Result{}, nil
	case Orphan:
		orphans.Inc()
		r.Fleet.Withdrawn(v.Ref.UID, v.Assignment.Spec.Session.UID)
		log.FromContext(ctx).Info("Orphan in a member: the hub did not place it there and does not stop it",
			"assignment", req.NamespacedName, "sessionUID", v.Assignment.Spec.Session.UID, "epoch", epoch)
		return ctrl.Result{}, nil
	case Adopt:
		r.Sessions.Claimed(v.session, v.Ref.Name)
		return ctrl.Result{}, nil
	case Forget:
		if v.session != nil {
			r.Fleet.Withdrawn(v.Ref.UID, v.session.UID)
		}
		// The precondition keeps a later end, which is not recorded yet.
		seen := client.Preconditions{ResourceVersion: &v.Assignment.ResourceVersion}
		return ctrl.Result{}, v.member.Delete(ctx, withdrawal(req.NamespacedName, v, epoch), seen)
	case Withdraw:
		return r.withdraw(ctx, req, v, epoch)
	case Assign:
		if UsedUp(v.Assignment, r.Sessions.LastAssigned(v.session), epoch) {
			return ctrl.Result{}, nil // the session controller assigns another epoch
		}
		return r.assign(ctx, v)
	case Resend:
		return r.resend(ctx, v)
	}
	return ctrl.Result{}, fmt.Errorf("step %q is not known", step)
}

// decide returns the step of Plan, or that of planDeparted for a departed session.
func (r *Reconciler) decide(req mcreconcile.Request, v *visit) (Step, int64) {
	if v.session != nil {
		hash := "" // nothing is desired
		if v.order != nil {
			hash = v.order.Hash
		}
		return Plan(v.session, v.Ref.UID, v.Assignment, hash)
	}
	session, upTo, left := r.Departures.of(req.NamespacedName, v.Ref.UID)
	if !left {
		return Plan(nil, v.Ref.UID, v.Assignment, "")
	}
	v.departed = session
	step, epoch := planDeparted(upTo, v.Assignment)
	if step == Forget {
		r.Departures.stopped(req.NamespacedName, v.Ref.UID)
	}
	return step, epoch
}

// withdraw orders the member to stop the session, unless the session may return to the
// member's copy. The fleet bounds withdrawals without a durable cause.
func (r *Reconciler) withdraw(ctx context.Context, req mcreconcile.Request, v *visit, epoch int64) (ctrl.Result, error) {
	if awaits, err := r.awaitsSessionController(ctx, v); awaits || err != nil {
		return ctrl.Result{RequeueAfter: RecoveryPoll}, err
	}
	if causeless(v.session, v.Ref.UID, v.Assignment) && !r.Fleet.MayWithdraw(v.Ref.UID, v.session.UID) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, v.member.Delete(ctx, withdrawal(req.NamespacedName, v, epoch))
}

// contested reports whether the member proves the epoch under which the session is placed in
// another member.
func (v *visit) contested() bool {
	return v.session != nil && !v.desired().Stop && v.AssignedTwice(v.session)
}

// awaitsSessionController reports whether the session controller must decide first
// whether the session returns to the member's copy.
func (r *Reconciler) awaitsSessionController(ctx context.Context, v *visit) (bool, error) {
	if v.contested() && (r.Sessions.LastAssigned(v.session) == 0 || r.Sessions.LastEpoch(v.session.UID) == v.Assignment.Spec.Epoch) {
		return true, nil
	}
	return r.failsBack(ctx, v)
}

// assign orders the session's desired state. The API server is checked first, since the
// cache may lag: for an epoch of an earlier leader that the member does not have, which may
// have ended, and for a session that is to run with a home, which it may have released.
func (r *Reconciler) assign(ctx context.Context, v *visit) (ctrl.Result, error) {
	wanted := v.order.Assignment
	epoch := wanted.Spec.Epoch
	holds := v.Assignment != nil && v.Assignment.Spec.Epoch == epoch
	if !holds && r.Sessions.LastEpoch(v.session.UID) != epoch || home.UsesRecord(v.session) && status.ToRun(v.session) {
		live := &v1alpha1.VDISession{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(v.session), live); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if w := status.DesiredIn(live, v.Ref.UID); live.UID != v.session.UID || !w.Run || w.Epoch != epoch || status.ToRun(live) != status.ToRun(v.session) {
			return ctrl.Result{RequeueAfter: backoff.ConflictDelay}, nil
		}
	}
	wanted.Payload = v.order.secrets.Payload()
	return ctrl.Result{}, v.member.Create(ctx, wanted)
}

// withdrawal returns the assignment to delete. The session's UID is the one in the
// assignment's name.
func withdrawal(key types.NamespacedName, v *visit, upTo int64) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
	a.Namespace, a.Name = key.Namespace, key.Name
	a.Spec.Epoch, a.Spec.Session.UID = upTo, v.departed
	switch {
	case v.session != nil:
		a.Spec.Session.UID = v.session.UID
		if why := status.ForceCleanup(v.session); why != "" {
			a.Annotations = map[string]string{v1alpha1.AnnotationForceCleanup: why}
		}
	case v.departed == "":
		a.Spec.Session.UID = v.Assignment.Spec.Session.UID
	}
	return a
}
