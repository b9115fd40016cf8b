package assignment

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
)

// FailsBack reports whether a Restart session returns to the copy that it left behind in
// a member: it still runs, its healing is KeepOriginal, and the replacement was neither suspended,
// restarted nor deleted. That is once for each failover. Otherwise, and by
// default, the copy is stopped.
func FailsBack(ctx context.Context, c client.Reader, revisions *template.Revisions, s *v1alpha1.VDISession, ref v1alpha1.ClusterRef, state health.State, reported *v1alpha1.SessionAssignment) (bool, error) {
	if s == nil || !status.MayFailBack(s, ref, reported) || state == health.Unreachable {
		return false, nil
	}
	spec, err := revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil {
		return false, fmt.Errorf("reading template revision: %w", err)
	}
	policies := &v1alpha1.PlacementPolicyList{}
	if err := c.List(ctx, policies); err != nil {
		return false, fmt.Errorf("listing placement policies: %w", err)
	}
	governing, _ := policy.Governing(s, policies.Items)
	healing := status.FailoverFor(s, spec, governing).Healing
	return healing == v1alpha1.HealKeepOriginal && status.FailoverMode(s, spec) == v1alpha1.FailoverRestart, nil
}
