package lifecycle

import (
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// mode keeps the failover mode of a placed session equal to its spec. An edit of a policy
// changes it with the next placement. A change of the mode resets Guarded until the member
// reports the guard again.
func mode(p *pass) next {
	s := p.Session
	at := s.Status.Placement
	if at == nil || s.Spec.Failover.Mode == "" && s.Status.ObservedGeneration == s.Generation {
		return proceed
	}
	var policy *v1alpha1.PlacementPolicy
	if s.Spec.Failover.Mode == "" {
		policy = p.placedBy()
	}
	if mode := status.FailoverFor(s, p.spec, policy).Mode; status.FailoverMode(s, p.spec) != mode {
		at.FailoverMode, at.Guarded = mode, false
	}
	return proceed
}
