package session

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// finalize shows that a session is Terminating, and removes its finalizer once no member
// may still run it, or an operator forces that.
func (r *Reconciler) finalize(ctx context.Context, before *v1alpha1.VDISession, reports []assignment.Report) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(before, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	r.memory.Found(before.UID)
	p := &pass{before: before, session: before.DeepCopy(), reports: reports}
	if n, err := r.adopt(ctx, p); err != nil {
		return ctrl.Result{}, err
	} else if n == done {
		return ctrl.Result{}, r.writeEnding(ctx, p)
	}
	stopped := r.confirmStops(p)
	if len(status.Outstanding(p.session)) == 0 {
		err := r.letGo(ctx, before)
		if err == nil && stopped {
			r.Fleet.Observe(before, true)
		}
		return ctrl.Result{}, err
	}
	wait, forced := r.forced(p.session)
	if forced && wait == 0 {
		return ctrl.Result{}, r.letGoByForce(ctx, p.session)
	}
	p.again = wait
	r.showAway(p.session)
	r.showLeaving(p)
	return ctrl.Result{RequeueAfter: p.again}, r.writeEnding(ctx, p)
}

// confirmStops removes what members have confirmed and what no member will ever confirm. It
// reports whether a member has confirmed a stop.
func (r *Reconciler) confirmStops(p *pass) (stopped bool) {
	s := p.session
	for i := range p.reports {
		rep := &p.reports[i]
		if step, epoch := assignment.Plan(s, rep.Ref.UID, rep.Assignment, ""); step == assignment.RecordStopped {
			r.recordStopped(p, rep, epoch)
			stopped = true
		}
	}
	r.forgetGone(s)
	switch at := s.Status.Placement; {
	case at == nil:
	case r.Fleet.Gone(at.ClusterUID):
		s.Status.Placement = nil
	case r.DeclaredFenced(at.ClusterUID):
		// Nothing is placed there any more, so that the member may be removed; what may
		// remain of it is recorded until it is.
		left := v1alpha1.Release{ClusterName: at.ClusterName, ClusterUID: at.ClusterUID, Epoch: at.Epoch, Superseded: true}
		s.Status.Releasing, s.Status.Placement = append(status.ReleasesElsewhere(s.Status.Releasing, left), left), nil
	}
	return stopped
}

// writeEnding writes the status of a session that is being deleted.
func (r *Reconciler) writeEnding(ctx context.Context, p *pass) error {
	status.Summarize(p.session, nil, r.Clock.Now())
	return client.IgnoreNotFound(r.write(ctx, p))
}

// DeclaredFenced reports whether an operator declared a member fenced.
func (r *Reconciler) DeclaredFenced(member types.UID) bool {
	return r.Fleet.Lost(failover.Session{Mode: v1alpha1.FailoverHold}, member).Reason == v1alpha1.ReasonMemberFenced
}

// showAway shows that a member of a deleted session can confirm nothing now, with the
// remedy.
func (r *Reconciler) showAway(s *v1alpha1.VDISession) {
	away := ""
	for _, o := range status.Outstanding(s) {
		if r.Fleet.HealthOf(o.ClusterUID) == health.Unreachable {
			away = o.ClusterName
		}
	}
	shown := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned)
	switch {
	case away != "":
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
			Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonMemberUnreachable,
			Message: fmt.Sprintf("%s is unreachable: once it is back it stops the desktop; to have the session go without, annotate it with %s=<why>", away, v1alpha1.AnnotationForceCleanup),
		})
	case shown != nil && (shown.Reason == v1alpha1.ReasonMemberUnreachable || shown.Reason == v1alpha1.ReasonFailoverPending):
		meta.RemoveStatusCondition(&s.Status.Conditions, v1alpha1.ConditionAssigned)
	}
}

// leavingSettles is how long after its deletion a session does not show what its member
// still waits for: most are gone by then.
const leavingSettles = 3 * time.Second

// showLeaving shows on a deleted session what a member still waits for.
func (r *Reconciler) showLeaving(p *pass) {
	s := p.session
	for i := range p.reports {
		reported := p.reports[i].Assignment
		if reported == nil || reported.Status.State != v1alpha1.AssignmentStopping || reported.Status.Message == "" {
			continue
		}
		if wait := s.DeletionTimestamp.Add(leavingSettles).Sub(r.Clock.Now()); wait > 0 {
			p.again = backoff.Sooner(p.again, wait)
			continue
		}
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
			Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPodTerminating,
			Message: p.reports[i].Ref.Name + ": " + reported.Status.Message,
		})
	}
}

// letGo removes the finalizer from a session of which nothing is outstanding. The lock
// ensures that the decision is based on what is stored.
func (r *Reconciler) letGo(ctx context.Context, s *v1alpha1.VDISession) error {
	err := r.removeFinalizer(ctx, s.DeepCopy())
	if err == nil && controllerutil.ContainsFinalizer(s, v1alpha1.Finalizer) {
		r.wroteEnd(ctx, s)
	}
	return client.IgnoreNotFound(err)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, s *v1alpha1.VDISession) error {
	before := s.DeepCopy()
	if !controllerutil.RemoveFinalizer(s, v1alpha1.Finalizer) {
		return nil // another finalizer keeps it
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	r.Departures.Release(s.UID) // first: the watch may report the end before the response
	if err := r.Client.Patch(ctx, s, patch); err != nil {
		r.Departures.Keep(s.UID)
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}
