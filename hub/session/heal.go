package session

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// goBack returns a Restart session to the copy that it left behind, where that
// runs still, its healing is KeepOriginal, and nobody has done anything with the
// replacement but work in it: the copy's member gets the session's next epoch,
// under which an agent keeps the Pod that it has, and the replacement is left
// behind in its turn. That is once for each failover. Otherwise, and by default,
// the copy is stopped: then it is false.
func (r *MemberReconciler) goBack(ctx context.Context, v *visit) (bool, error) {
	s := v.session
	if !mayGoBack(s, v.ref, v.reported) || r.Fleet.HealthOf(v.ref.UID) == health.Unreachable {
		return false, nil
	}
	spec, err := r.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil {
		return false, fmt.Errorf("reading template revision: %w", err)
	}
	p := &pass{session: s}
	if err := r.Sessions.readPolicies(ctx, p); err != nil {
		return false, err
	}
	policy, _ := governing(s, p.policies)
	if f := failoverOf(s, spec, policy); f.Healing != v1alpha1.HealKeepOriginal || failoverMode(s, spec) != v1alpha1.FailoverRestart {
		return false, nil
	}
	after := s.DeepCopy()
	now := r.Clock.Now()
	endRun(after, now)
	returnTo(after, v.ref, r.Sessions.nextEpoch(s), seconds(now))
	if url, ok := r.Sessions.urlOf(after, spec); ok {
		after.Status.URL = url
	}
	summarise(after, spec, now)
	if err := r.Sessions.patchStatus(ctx, s, after); err != nil {
		return false, err
	}
	r.Sessions.given.add(after.UID, after.Status.Epoch)
	r.Sessions.reserve(after)
	r.Recorder.Eventf(after, nil, "Normal", v1alpha1.EventHealed, "Heal", "%s", truncate(fmt.Sprintf(
		"its first copy runs still in %s, and is kept, as its healing says; the replacement in %s is stopped", v.ref.Name, s.Status.Placement.ClusterName)))
	return true, nil
}

// mayGoBack is whether a member reports the very copy that was left behind there,
// and that its desktop is ready.
func mayGoBack(s *v1alpha1.VDISession, ref v1alpha1.ClusterRef, reported *v1alpha1.SessionAssignment) bool {
	f, at := s.Status.LastFailover, s.Status.Placement
	if !s.DeletionTimestamp.IsZero() || f == nil || at == nil || at.Idle || at.Run > 1 || f.From != ref.Name || reported == nil {
		return false
	}
	for _, o := range s.Status.Releasing {
		if o.ClusterUID == ref.UID {
			return o.Superseded && o.Epoch == f.FromEpoch && reported.Spec.Epoch == o.Epoch &&
				reported.Status.State == v1alpha1.AssignmentActive &&
				meta.IsStatusConditionTrue(reported.Status.Conditions, v1alpha1.ConditionPodReady)
		}
	}
	return false
}

// returnTo makes the member that a session was taken from the one where it is
// placed, and the replacement what is left behind.
func returnTo(s *v1alpha1.VDISession, ref v1alpha1.ClusterRef, epoch int64, now metav1.Time) {
	at := s.Status.Placement
	left := v1alpha1.Release{ClusterName: at.ClusterName, ClusterUID: at.ClusterUID, Epoch: at.Epoch, Superseded: true}
	s.Status.Releasing = append(others(others(s.Status.Releasing, left), v1alpha1.Release{ClusterUID: ref.UID}), left)
	s.Status.Epoch = epoch
	s.Status.Placement = &v1alpha1.Placement{
		ClusterName: ref.Name, ClusterUID: ref.UID, Region: s.Status.LastFailover.FromRegion, Policy: at.Policy,
		Epoch: s.Status.Epoch, PlacementTime: now, Run: 1, FailoverMode: at.FailoverMode,
	}
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPlaced,
		Message: ref.Name + ": it ran there before, and runs there still",
	})
	sending(s)
}

// healed tells that what was left behind in a member is stopped.
func (r *MemberReconciler) healed(s *v1alpha1.VDISession, o v1alpha1.Release) {
	note := fmt.Sprintf("its copy of epoch %d that was left behind in %s is stopped", o.Epoch, o.ClusterName)
	if o.HomeClaimName != "" {
		note += fmt.Sprintf("; its home there was claim %s", o.HomeClaimName)
	}
	r.Recorder.Eventf(s, nil, "Normal", v1alpha1.EventHealed, "Heal", "%s", truncate(note))
}

// leftIn is what a session has left behind in a member; nil: nothing.
func leftIn(s *v1alpha1.VDISession, ref v1alpha1.ClusterRef) *v1alpha1.Release {
	for i := range s.Status.Releasing {
		if o := &s.Status.Releasing[i]; o.Superseded && o.ClusterUID == ref.UID {
			return o
		}
	}
	return nil
}
