package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// DefaultIdleAfter is how long a desktop is unused before its agent reports it as idle.
const DefaultIdleAfter = 5 * time.Minute

// MemberReconciler compares, for one assignment of one member, what the
// session's status wants with what the member reports, and acts on the
// difference.
type MemberReconciler struct {
	// Client of the hub, which reads from its cache, and Live, which reads from
	// its API server.
	Client client.Client
	Live   client.Reader
	// Members by name.
	Members   multicluster.Provider
	Recorder  events.EventRecorder
	Fleet     Fleet
	Revisions *Revisions
	// Secrets that are sent with assignments.
	Secrets  *secret.Manager
	Sessions *Reconciler
	Proofs   *Proofs
	Clock    clock.PassiveClock
	// IdleAfter is for how long a desktop is not used before its agent says so;
	// zero: DefaultIdleAfter.
	IdleAfter time.Duration
}

// visit is one reconcile of one assignment.
type visit struct {
	member client.Client
	ref    v1alpha1.ClusterRef
	// session as the hub has it; nil: it has none.
	session *v1alpha1.VDISession
	// departed is the UID of a session that was deleted without its finalizer; empty:
	// it was not.
	departed types.UID
	// reported by the member; nil: nothing. proven: it bears the proof that its epoch
	// was given to the member.
	reported *v1alpha1.SessionAssignment
	proven   bool
	// wanted and hash are of the assignment that the session asks for, where
	// it is placed in this member.
	wanted *v1alpha1.SessionAssignment
	hash   string
	spec   *v1alpha1.TemplateSpec
	url    string
	// secrets that travel with what is wanted.
	secrets secret.Set
}

// Reconcile compares and acts.
func (r *MemberReconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
	result, err := r.update(ctx, req)
	return backoff.OnConflict(result, err)
}

func (r *MemberReconciler) update(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
	if err := r.Proofs.Prepare(ctx); err != nil {
		return ctrl.Result{}, err
	}
	cl, err := r.Members.Get(ctx, req.ClusterName)
	if err != nil {
		return ctrl.Result{}, err
	}
	v := &visit{member: cl.GetClient()}
	var known bool
	if v.ref, known = r.Fleet.RefOf(string(req.ClusterName)); !known {
		return ctrl.Result{}, multicluster.ErrClusterNotFound
	}
	if v.session, err = byAssignment(ctx, r.Client, req.NamespacedName); err != nil {
		return ctrl.Result{}, err
	}
	if v.session != nil && r.Sessions.written.stale(v.session) {
		return ctrl.Result{RequeueAfter: staleWait}, nil
	}
	if v.reported, err = reportedOf(ctx, v.member, req.NamespacedName); err != nil {
		return ctrl.Result{}, err
	}
	v.proven = r.Proofs.proves(v.session, v.ref.UID, v.reported)
	v.session, v.reported = ownOf(v.session, v.ref.UID, v.reported, v.proven)
	var why *secret.NotAssignableError
	err = r.render(ctx, v)
	if denied.Is(err) {
		why = &secret.NotAssignableError{Reason: v1alpha1.ReasonWriteDenied, Message: denied.Explain(err)}
		err = why
	}
	if errors.As(err, &why) && !over(v) {
		return r.showUnfit(ctx, v, why)
	} else if err != nil && why == nil {
		return ctrl.Result{}, err
	}
	result, err := r.act(ctx, req, v)
	if denied.Is(err) && v.session != nil {
		err = r.Sessions.showDenied(ctx, client.ObjectKeyFromObject(v.session), err)
	}
	return result, err
}

// act carries out what plan says. What is recorded is not forgotten in the
// same go, but once the record has come back through the hub's cache: an older
// view of the session would ask for the very epoch that has just ended.
func (r *MemberReconciler) act(ctx context.Context, req mcreconcile.Request, v *visit) (ctrl.Result, error) {
	step, epoch := r.decide(req, v)
	if step == stepWithdraw && givenTwice(v) {
		if taken, err := r.reclaim(ctx, v); taken || err != nil {
			return ctrl.Result{}, err
		}
	}
	step, waits := r.inRecovery(v, step)
	log.FromContext(ctx).V(1).Info("Planned", "step", step, "epoch", epoch, "assignment", req.NamespacedName)
	if v.wanted != nil {
		r.Fleet.Ordered(v.session.UID, v.wanted.Spec.Epoch, v.ref.UID, v.hash)
	}
	result, err := r.carryOut(ctx, req, v, step, epoch)
	if waits {
		result = waitFor(result, recoveryPoll)
	}
	return result, err
}

func (r *MemberReconciler) carryOut(ctx context.Context, req mcreconcile.Request, v *visit, step step, epoch int64) (ctrl.Result, error) {
	switch step {
	case stepNone:
		return ctrl.Result{}, nil
	case stepOrphan:
		orphans.Inc()
		r.Fleet.Withdrawn(v.ref.UID, v.reported.Spec.Session.UID)
		log.FromContext(ctx).Info("A member runs what the hub does not know to have given it; it is left alone",
			"assignment", req.NamespacedName, "sessionUID", v.reported.Spec.Session.UID, "epoch", epoch)
		return ctrl.Result{}, nil
	case stepAdopt:
		return r.adopt(ctx, v)
	case stepRecordStopped:
		return ctrl.Result{}, r.recordStopped(ctx, v.session, v.ref, v.reported, epoch)
	case stepRecordRefused:
		return ctrl.Result{}, r.recordRefused(ctx, v.session, v.reported, v.ref.UID)
	case stepForget:
		if v.session != nil {
			r.Fleet.Withdrawn(v.ref.UID, v.session.UID)
		}
		// An end that came since is not yet recorded.
		seen := client.Preconditions{ResourceVersion: &v.reported.ResourceVersion}
		return ctrl.Result{}, v.member.Delete(ctx, withdrawal(req.NamespacedName, v, epoch), seen)
	case stepWithdraw:
		return r.withdraw(ctx, req, v, epoch)
	case stepAssign:
		return r.assign(ctx, v)
	case stepResend:
		return r.resend(ctx, v)
	case stepMirror:
		r.Sessions.resends.forget(v.session.UID)
		return r.mirror(ctx, v)
	}
	return ctrl.Result{}, fmt.Errorf("step %q is not known", step)
}

// decide returns what plan says, or planDeparted of a session whose object is gone
// although its members have not confirmed that it stopped.
func (r *MemberReconciler) decide(req mcreconcile.Request, v *visit) (step, int64) {
	if v.session != nil {
		return plan(v.session, v.ref.UID, v.reported, v.hash)
	}
	session, upTo, left := r.Sessions.departed.of(req.NamespacedName, v.ref.UID)
	if !left {
		return plan(nil, v.ref.UID, v.reported, v.hash)
	}
	v.departed = session
	step, epoch := planDeparted(upTo, v.reported)
	if step == stepForget {
		r.Sessions.departed.stopped(req.NamespacedName, v.ref.UID)
	}
	return step, epoch
}

// withdraw has the member stop the session, unless it goes back there. Without a
// durable cause the fleet bounds that.
func (r *MemberReconciler) withdraw(ctx context.Context, req mcreconcile.Request, v *visit, epoch int64) (ctrl.Result, error) {
	if causeless(v.session, v.ref.UID, v.reported) && !r.Fleet.MayWithdraw(v.ref.UID, v.session.UID) {
		return ctrl.Result{}, nil
	}
	if v.session != nil {
		if back, err := r.goBack(ctx, v); back || err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := v.member.Delete(ctx, withdrawal(req.NamespacedName, v, epoch)); err != nil || v.session == nil {
		return ctrl.Result{}, err
	}
	return r.showLeaving(ctx, v)
}

// assign orders what the session's status says. Of an epoch that an earlier
// leader gave, and that the member does not hold, the API server is asked
// first: the cache may not show yet that it has ended. So it is of a session
// that is to run with a home that it may have given back since.
func (r *MemberReconciler) assign(ctx context.Context, v *visit) (ctrl.Result, error) {
	if r.usedUp(v) {
		return ctrl.Result{}, r.reissue(ctx, v)
	}
	epoch := v.wanted.Spec.Epoch
	holds := v.reported != nil && v.reported.Spec.Epoch == epoch
	if !holds && r.Sessions.given.epoch(v.session.UID) != epoch || home.UsesRecord(v.session) && status.ToRun(v.session) {
		live := &v1alpha1.VDISession{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(v.session), live); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if w := status.DesiredIn(live, v.ref.UID); live.UID != v.session.UID || !w.Run || w.Epoch != epoch || status.ToRun(live) != status.ToRun(v.session) {
			return ctrl.Result{RequeueAfter: backoff.ConflictDelay}, nil
		}
	}
	v.wanted.Payload = v.secrets.Payload()
	return ctrl.Result{}, v.member.Create(ctx, v.wanted)
}

// mirror shows the member's report on the session. A change of its spec is the
// Reconciler's to look at first: its write brings the session up here again.
func (r *MemberReconciler) mirror(ctx context.Context, v *visit) (ctrl.Result, error) {
	now := r.Clock.Now()
	if err := r.giveBackHome(ctx, v); err != nil {
		return ctrl.Result{}, err
	}
	if v.session.Status.ObservedGeneration != v.session.Generation {
		return ctrl.Result{}, nil
	}
	after := v.session.DeepCopy()
	stored := v.reported.Annotations[v1alpha1.AnnotationSpecHash] == v.hash
	status.Mirror(after, v.spec, v.reported, stored, v.url, now)
	status.MirrorIdle(after, v.reported, now, r.idleAfter())
	after.Status.AccessSecretName = secret.AccessName(after, v.spec)
	if equality.Semantic.DeepEqual(v.session.Status, after.Status) {
		return ctrl.Result{}, nil
	}
	if wait := status.HoldBack(v.session, after, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.patch(ctx, v.session, after); err != nil {
		return ctrl.Result{}, err
	}
	r.Sessions.traceMirrored(v.session, after, now)
	if v.session.Status.StartTime == nil && after.Status.StartTime != nil {
		startSeconds.Observe(now.Sub(after.CreationTimestamp.Time).Seconds())
		r.Recorder.Eventf(after, nil, "Normal", v1alpha1.EventRunning, "Start", "running in %s at %s", v.ref.Name, after.Status.URL)
	}
	if f := after.Status.LastFailover; f != nil && f.RecoveredTime != nil && v.session.Status.LastFailover.RecoveredTime == nil {
		recovery.Observe(max(0, now.Sub(f.Time.Time).Seconds()))
	}
	if message, ok := status.ExpiryWarning(v.session, after); ok {
		r.Recorder.Eventf(after, nil, "Warning", v1alpha1.EventExpiringSoon, "Expire", "%s", truncate(message))
	}
	return ctrl.Result{}, nil
}

// render makes the assignment that the session asks for, if it is placed in
// this member.
func (r *MemberReconciler) render(ctx context.Context, v *visit) error {
	s := v.session
	if s == nil || !status.DesiredIn(s, v.ref.UID).Run {
		return nil
	}
	spec, err := r.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil {
		return fmt.Errorf("reading template revision: %w", err)
	}
	scheme, domain, ok := r.Fleet.IngressOf(v.ref.UID)
	if !ok {
		return multicluster.ErrClusterNotFound
	}
	v.spec = spec
	if !r.Sessions.serves(s.Namespace) {
		return &secret.NotAssignableError{Reason: v1alpha1.ReasonNamespaceNotAllowed, Message: r.Sessions.notServed(s.Namespace)}
	}
	if v.secrets, err = r.Secrets.For(ctx, s, spec); err != nil {
		return err
	}
	v.wanted = Assignment(s, spec, domain, v.secrets)
	v.wanted.Spec.Proof = r.Proofs.of(v.ref.UID, s.UID, v.wanted.Spec.Epoch)
	// The run tells apart two assignments that say the same: what the member
	// reports of one is no word about the other.
	v.hash = fmt.Sprintf("%s-%d", convert.SpecHash(&v.wanted.Spec), s.Status.Placement.Run)
	v.wanted.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: v.hash}
	if walk := r.Sessions.walkOf(s); walk.Traced() {
		v.wanted.Annotations[v1alpha1.AnnotationTraceparent] = walk.String()
	}
	v.url = scheme + "://" + v.wanted.Spec.Host + spec.Path
	return nil
}

func (r *MemberReconciler) patch(ctx context.Context, before, after *v1alpha1.VDISession) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.Sessions.WriteStatus(ctx, before, after))
}

func reportedOf(ctx context.Context, c client.Reader, key types.NamespacedName) (*v1alpha1.SessionAssignment, error) {
	a := &v1alpha1.SessionAssignment{}
	if err := c.Get(ctx, key, a); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading what the member reports: %w", err)
	}
	return a, nil
}

// withdrawal names what must stop. The session's UID is the one that the
// assignment's name was made from.
func withdrawal(key types.NamespacedName, v *visit, upTo int64) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
	a.Namespace, a.Name = key.Namespace, key.Name
	a.Spec.Epoch = upTo
	switch {
	case v.session != nil:
		a.Spec.Session.UID = v.session.UID
		if why := forceCleanup(v.session); why != "" {
			a.Annotations = map[string]string{v1alpha1.AnnotationForceCleanup: why}
		}
	case v.departed != "":
		a.Spec.Session.UID = v.departed
	default:
		a.Spec.Session.UID = v.reported.Spec.Session.UID
	}
	return a
}

func (r *MemberReconciler) idleAfter() time.Duration {
	if r.IdleAfter > 0 {
		return r.IdleAfter
	}
	return DefaultIdleAfter
}
