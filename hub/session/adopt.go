package session

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// errOldView is the conflict of a session that is newer than the cache.
var errOldView = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("vdisessions").GroupResource(), "", fmt.Errorf("the cache is behind"))

// adopt takes over an epoch that a member proves and that this hub never assigned: the hub
// was restored from an older state.
func (r *Reconciler) adopt(ctx context.Context, p *pass) (next, error) {
	for i := range p.reports {
		rep := &p.reports[i]
		if !rep.Unknown(p.session) && !rep.GivenTwice(p.session) {
			continue
		}
		if err := r.notice(ctx, p.session); err != nil {
			return done, err
		}
		switch {
		case rep.Unknown(p.session):
			return done, r.adoptFrom(ctx, p, rep)
		case !p.session.DeletionTimestamp.IsZero():
			status.AddRelease(p.session, rep.Ref, rep.Assignment.Spec.Epoch)
			return done, nil
		}
		// The copy that this leader has since placed elsewhere is the younger one, and is
		// stopped. If an earlier leader placed it, it is unknown which one is in use, and
		// the placement stays.
		if r.memory.Given(p.session.UID) == rep.Assignment.Spec.Epoch {
			return done, r.takeOver(ctx, p, rep, r.nextEpoch(p.session))
		}
	}
	return goOn, nil
}

// adoptFrom takes over a member's copy. A copy that is Active becomes the placement under
// its own epoch, so that its desktop continues unchanged; the hub's earlier placement
// elsewhere is stopped. For a copy that is stopping, or of a session that is being deleted,
// the hub waits for the end; from one that has ended only the epoch is taken.
func (r *Reconciler) adoptFrom(ctx context.Context, p *pass, rep *assignment.Report) error {
	s, epoch := p.session, rep.Assignment.Spec.Epoch
	switch at := s.Status.Placement; {
	case status.Ended(rep.Assignment):
	case at != nil && at.ClusterUID == rep.Ref.UID:
		at.Epoch = epoch
		p.events = append(p.events, func() { r.account(rep, s) })
	case !s.DeletionTimestamp.IsZero() || rep.Assignment.Status.State != v1alpha1.AssignmentActive:
		status.AddRelease(s, rep.Ref, epoch)
	default:
		return r.takeOver(ctx, p, rep, epoch)
	}
	s.Status.Epoch = epoch
	return nil
}

// takeOver makes a copy that runs in a member the session's placement. The hub's own
// placement of the session elsewhere is released.
func (r *Reconciler) takeOver(ctx context.Context, p *pass, rep *assignment.Report, epoch int64) error {
	if _, err := r.resolve(ctx, p); err != nil {
		return err
	}
	if p.spec == nil {
		// The session's conditions report that it has no template. Its desktop continues.
		p.hold, p.again = true, memory.StaleWait
		return nil
	}
	if err := r.readPolicies(ctx, p); err != nil {
		return err
	}
	r.replace(p, rep, epoch)
	if err := r.findHomeThere(ctx, p, rep); err != nil {
		return err
	}
	if p.template != nil {
		if err := r.Revisions.Keep(ctx, p.template, p.revision); err != nil {
			return err
		}
	}
	// The reservation of a decision that was not written yet is released.
	r.Fleet.Release(p.session.UID)
	p.events = append(p.events, func() {
		r.account(rep, p.session)
		log.FromContext(ctx).Info("Took over a copy that a member runs and this hub did not place",
			"session", client.ObjectKeyFromObject(p.session), "member", rep.Ref.Name, "epoch", rep.Assignment.Spec.Epoch)
	})
	p.record(r, "Normal", v1alpha1.EventPlaced, "Place", p.decision.Message)
	return nil
}

// account reserves capacity for a copy that was taken over and is yet to start; the member
// counts one that runs.
func (r *Reconciler) account(rep *assignment.Report, s *v1alpha1.VDISession) {
	switch at := s.Status.Placement; {
	case at.Epoch == rep.Assignment.Spec.Epoch && !liesIdle(rep.Assignment):
		r.Fleet.Counts(s.UID, at.Epoch, at.ClusterUID)
	case !at.Idle:
		r.reserve(s)
	}
}

// replace writes the placement in the reporting member into the pass' status.
func (r *Reconciler) replace(p *pass, rep *assignment.Report, epoch int64) {
	s := p.session
	policy, _ := policy.Governing(s, p.policies)
	p.resources = s.Status.Resources
	if s.Status.Placement == nil {
		p.resources = p.spec.Resources.For(s.Spec.Resources)
	}
	s.Status.Releasing = status.ReleasesElsewhere(s.Status.Releasing, v1alpha1.Release{ClusterUID: rep.Ref.UID})
	if at := s.Status.Placement; at != nil {
		status.AddRelease(s, refOf(at), at.Epoch)
	}
	region := r.Fleet.RegionOf(rep.Ref.UID)
	at := &v1alpha1.Placement{
		ClusterName: rep.Ref.Name, ClusterUID: rep.Ref.UID, Region: region, Epoch: epoch, PlacementTime: status.Seconds(r.Clock.Now()), Run: 1,
		FailoverMode: status.FailoverFor(s, p.spec, policy).Mode, Idle: liesIdle(rep.Assignment),
	}
	if policy != nil {
		at.Policy = policy.Name
	}
	r.scheduled(p, at, placement.Decision{
		Placed: true, Cluster: rep.Ref, Region: region, Reason: v1alpha1.ReasonPlaced,
		Message: fmt.Sprintf("%s: it holds the session under epoch %d, which was given before the hub was restored from a backup", rep.Ref.Name, rep.Assignment.Spec.Epoch),
	})
	if len(s.Status.Releasing) == 0 {
		s.Status.Releasing = nil
	}
}

// liesIdle reports whether a desktop is stopped because it is not to run.
func liesIdle(reported *v1alpha1.SessionAssignment) bool {
	pod := meta.FindStatusCondition(reported.Status.Conditions, v1alpha1.ConditionPodReady)
	return pod != nil && slices.Contains([]string{v1alpha1.ReasonSuspended, v1alpha1.ReasonTimeExpired}, pod.Reason)
}

// findHomeThere finds the record of a user's home that the write of the placement must
// update: the home may have moved since the backup. A record that another session has
// claimed is left unchanged.
func (r *Reconciler) findHomeThere(ctx context.Context, p *pass, rep *assignment.Report) error {
	p.home = homeStep{}
	if !status.ToRun(p.session) || p.spec.Home.Mode != v1alpha1.HomePerUser {
		return nil
	}
	record := &v1alpha1.VDIHome{}
	switch err := r.Client.Get(ctx, home.Key(p.session), record); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading the home: %w", err)
	case home.InUse(p.session, record) != "":
		log.FromContext(ctx).Info("The home of a session that was taken over is another's by the hub's record", "home", record.Name, "by", record.Status.MountedBy)
		p.home.foreign = true
	default:
		p.home = homeStep{record: record, movable: record.Spec.ClusterUID != rep.Ref.UID}
	}
	return nil
}
