package session

import (
	"context"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// checkFailover refuses a mode that would lose the contents of the session's home.
func checkFailover(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	mode := s.Spec.Failover.Mode
	if mode == "" || mode == v1alpha1.FailoverHold || !status.HasHome(t) {
		return "", ""
	}
	return v1alpha1.ReasonFailoverLosesHome, fmt.Sprintf(
		"spec.failover.mode %s would lose what is in the home that template %q gives the session: set it to Hold or leave it out, or name a template without a home",
		mode, s.Spec.Template)
}

// mode keeps the failover mode of a placed session equal to its spec. An edit of a policy
// changes it with the next placement. A change of the mode resets Guarded until the member
// reports the guard again.
func (r *Reconciler) mode(ctx context.Context, p *pass) (next, error) {
	s := p.session
	at := s.Status.Placement
	if at == nil || s.Spec.Failover.Mode == "" && s.Status.ObservedGeneration == s.Generation {
		return goOn, nil
	}
	var policy *v1alpha1.PlacementPolicy
	if s.Spec.Failover.Mode == "" {
		var err error
		if policy, err = r.placedBy(ctx, p); err != nil {
			return done, err
		}
	}
	if mode := status.FailoverFor(s, p.spec, policy).Mode; status.FailoverMode(s, p.spec) != mode {
		at.FailoverMode, at.Guarded = mode, false
	}
	return goOn, nil
}
