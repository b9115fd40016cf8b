package assignment

import (
	"context"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// FailsBack reports whether a Restart session returns to the copy that it left behind in a
// member: the copy still runs, the session's healing is KeepOriginal, and the replacement was
// neither suspended, restarted nor deleted. It returns at most once for each failover; by
// default the copy is stopped. spec is the template revision that the session runs.
func FailsBack(s *v1alpha1.VDISession, spec *v1alpha1.TemplateSpec, policies policy.Precedence, ref v1alpha1.ClusterRef, state health.State, reported *v1alpha1.SessionAssignment) bool {
	if s == nil || spec == nil || !status.MayFailBack(s, ref, reported) || state == health.Unreachable {
		return false
	}
	governing, _ := policies.Governing(s)
	healing := status.FailoverFor(s, spec, governing).Healing
	return healing == v1alpha1.HealKeepOriginal && status.FailoverMode(s, spec) == v1alpha1.FailoverRestart
}

// failsBack gathers the parameters of FailsBack.
func (r *Reconciler) failsBack(ctx context.Context, v *visit) (bool, error) {
	if v.session == nil || !status.MayFailBack(v.session, v.Ref, v.Assignment) {
		return false, nil
	}
	spec, err := r.Orders.Revisions.Spec(ctx, v.session.Spec.Template, v.session.Status.TemplateRevision)
	if err != nil {
		return false, fmt.Errorf("reading template revision: %w", err)
	}
	policies := &v1alpha1.PlacementPolicyList{}
	if err := r.Client.List(ctx, policies); err != nil {
		return false, fmt.Errorf("listing placement policies: %w", err)
	}
	return FailsBack(v.session, spec, policy.NewPrecedence(policies.Items), v.Ref, r.Fleet.State(v.Ref.UID).Health, v.Assignment), nil
}
