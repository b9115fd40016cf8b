package session

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// errOldView: the session is not as the cache has it.
var errOldView = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("vdisessions").GroupResource(), "", fmt.Errorf("the cache is behind"))

// adopt takes over an epoch that the member proves to have been given and that this
// hub never gave: the hub was restored from an older state. A copy that is Active
// becomes the placement under the epoch that it has, so that its desktop goes on as
// it is; what the hub had placed elsewhere before is stopped there. Of one that is
// stopping, or of a session that is being deleted, the end is waited for; of one
// that has ended only the number is taken.
func (r *MemberReconciler) adopt(ctx context.Context, v *visit) (ctrl.Result, error) {
	if err := r.notice(ctx, v); err != nil {
		return ctrl.Result{}, err
	}
	epoch := v.reported.Spec.Epoch
	after := v.session.DeepCopy()
	after.Status.Epoch = epoch
	switch p := after.Status.Placement; {
	case status.Ended(v.reported):
	case p != nil && p.ClusterUID == v.ref.UID:
		p.Epoch = epoch
		if err := r.patch(ctx, v.session, after); err != nil {
			return ctrl.Result{}, err
		}
		r.account(v, after)
		return ctrl.Result{}, nil
	case !after.DeletionTimestamp.IsZero() || v.reported.Status.State != v1alpha1.AssignmentActive:
		status.AddRelease(after, v.ref, epoch)
	default:
		return r.takeOver(ctx, v, epoch)
	}
	return ctrl.Result{}, r.patch(ctx, v.session, after)
}

// takeOver makes a copy that a member runs the session's placement. What the hub
// knows of the session's placement elsewhere is given up.
func (r *MemberReconciler) takeOver(ctx context.Context, v *visit, epoch int64) (ctrl.Result, error) {
	p := &pass{session: v.session.DeepCopy()}
	if _, err := r.Sessions.resolve(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	if p.spec == nil {
		// The session says that it has no template. Its desktop runs on.
		return ctrl.Result{RequeueAfter: staleWait}, nil
	}
	if err := r.Sessions.readPolicies(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	r.replace(p, v, epoch)
	if err := r.takeHomeThere(ctx, v, p); err != nil {
		return ctrl.Result{}, err
	}
	if p.template != nil {
		if err := r.Revisions.Keep(ctx, p.template, p.revision); err != nil {
			return ctrl.Result{}, err
		}
	}
	// The room of a decision that was not written yet is given back.
	r.Fleet.Release(v.session.UID)
	status.Summarize(p.session, p.spec, r.Clock.Now())
	if err := r.patch(ctx, v.session, p.session); err != nil {
		return ctrl.Result{}, err
	}
	r.account(v, p.session)
	log.FromContext(ctx).Info("Took over a copy that a member runs and this hub did not place",
		"session", client.ObjectKeyFromObject(v.session), "member", v.ref.Name, "epoch", v.reported.Spec.Epoch)
	r.Recorder.Eventf(p.session, nil, "Normal", v1alpha1.EventPlaced, "Place", "%s", truncate(p.decision.Message))
	return ctrl.Result{}, nil
}

// account keeps room for a copy that was taken over and is yet to start; one that
// runs is counted by its member.
func (r *MemberReconciler) account(v *visit, s *v1alpha1.VDISession) {
	switch at := s.Status.Placement; {
	case at.Epoch == v.reported.Spec.Epoch && !liesIdle(v.reported):
		r.Fleet.Counts(s.UID, at.Epoch, at.ClusterUID)
	case !at.Idle:
		r.Sessions.reserve(s)
	}
}

// replace writes the placement in the member of the visit into the pass' status.
func (r *MemberReconciler) replace(p *pass, v *visit, epoch int64) {
	s := p.session
	policy, _ := policy.Governing(s, p.policies)
	p.resources = s.Status.Resources
	if s.Status.Placement == nil {
		p.resources = p.spec.Resources.For(s.Spec.Resources)
	}
	s.Status.Releasing = status.ReleasesElsewhere(s.Status.Releasing, v1alpha1.Release{ClusterUID: v.ref.UID})
	if at := s.Status.Placement; at != nil {
		status.AddRelease(s, refOf(at), at.Epoch)
	}
	region := r.Fleet.RegionOf(v.ref.UID)
	p.reserved = &v1alpha1.Placement{
		ClusterName: v.ref.Name, ClusterUID: v.ref.UID, Region: region, Epoch: epoch, PlacementTime: status.Seconds(r.Clock.Now()), Run: 1,
		FailoverMode: status.FailoverFor(s, p.spec, policy).Mode, Idle: liesIdle(v.reported),
	}
	if policy != nil {
		p.reserved.Policy = policy.Name
	}
	r.Sessions.scheduled(p, placement.Decision{
		Placed: true, Cluster: v.ref, Region: region, Reason: v1alpha1.ReasonPlaced,
		Message: fmt.Sprintf("%s: it holds the session under epoch %d, which was given before the hub was restored from a backup", v.ref.Name, v.reported.Spec.Epoch),
	})
	if len(s.Status.Releasing) == 0 {
		s.Status.Releasing = nil
	}
}

// liesIdle reports whether a desktop does not run because it is not to.
func liesIdle(reported *v1alpha1.SessionAssignment) bool {
	pod := meta.FindStatusCondition(reported.Status.Conditions, v1alpha1.ConditionPodReady)
	return pod != nil && slices.Contains([]string{v1alpha1.ReasonSuspended, v1alpha1.ReasonTimeExpired}, pod.Reason)
}

// takeHomeThere notes that the session's home is in the member that runs it. The
// record of a user's home that has moved since the backup is brought up to date,
// unless another session has it by the hub's account.
func (r *MemberReconciler) takeHomeThere(ctx context.Context, v *visit, p *pass) error {
	if !status.ToRun(p.session) || p.spec.Home.Mode != v1alpha1.HomePerUser {
		return r.Sessions.takeHome(ctx, v.session, p)
	}
	record := &v1alpha1.VDIHome{}
	switch err := r.Client.Get(ctx, home.Key(p.session), record); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading the home: %w", err)
	case home.InUse(p.session, record) != "":
		log.FromContext(ctx).Info("The home of a session that was taken over is another's by the hub's record", "home", record.Name, "by", record.Status.MountedBy)
		return nil
	default:
		p.home = homeStep{record: record, movable: record.Spec.ClusterUID != v.ref.UID}
	}
	return r.Sessions.takeHome(ctx, v.session, p)
}

// assignmentKey is the namespace and name of a session's assignment in members.
func assignmentKey(s *v1alpha1.VDISession) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
}
