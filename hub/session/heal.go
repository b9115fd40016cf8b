package session

import (
	"context"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/fleet"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// goBack returns a Restart session to the copy that it left behind, where that
// runs still, its healing is KeepOriginal, and nobody has done anything with the
// replacement but work in it: the copy's member gets the session's next epoch,
// under which an agent keeps the Pod that it has, and the replacement is left
// behind in its turn. That is once for each failover. Otherwise, and by default,
// the copy is stopped: then it is false.
func (r *MemberReconciler) goBack(ctx context.Context, v *visit) (bool, error) {
	s := v.session
	if !status.MayFailBack(s, v.ref, v.reported) || r.Fleet.HealthOf(v.ref.UID) == fleet.HealthUnreachable {
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
	policy, _ := policy.Governing(s, p.policies)
	if f := status.FailoverFor(s, spec, policy); f.Healing != v1alpha1.HealKeepOriginal || status.FailoverMode(s, spec) != v1alpha1.FailoverRestart {
		return false, nil
	}
	after := s.DeepCopy()
	now := r.Clock.Now()
	status.EndRun(after, now)
	status.FailBack(after, v.ref, r.Sessions.nextEpoch(s), status.Seconds(now))
	if url, ok := r.Sessions.urlOf(after, spec); ok {
		after.Status.URL = url
	}
	status.Summarize(after, spec, now)
	if err := r.Sessions.WriteStatus(ctx, s, after); err != nil {
		return false, err
	}
	r.Sessions.given.add(after.UID, after.Status.Epoch)
	r.Sessions.reserve(after)
	r.Recorder.Eventf(after, nil, "Normal", v1alpha1.EventHealed, "Heal", "%s", truncate(fmt.Sprintf(
		"its first copy runs still in %s, and is kept, as its healing says; the replacement in %s is stopped", v.ref.Name, s.Status.Placement.ClusterName)))
	return true, nil
}

// healed tells that what was left behind in a member is stopped.
func (r *MemberReconciler) healed(s *v1alpha1.VDISession, o v1alpha1.Release) {
	note := fmt.Sprintf("its copy of epoch %d that was left behind in %s is stopped", o.Epoch, o.ClusterName)
	if o.HomeClaimName != "" {
		note += fmt.Sprintf("; its home there was claim %s", o.HomeClaimName)
	}
	r.Recorder.Eventf(s, nil, "Normal", v1alpha1.EventHealed, "Heal", "%s", truncate(note))
}
