package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// overlay makes the agent's conditions Unknown while the member is unreachable. Only
// conditions that were True become Unknown: the others are still missing by the last
// report. The member's next report replaces them.
func overlay(p *pass) next {
	s := p.Session
	if s.Status.Placement == nil || p.in.Members[s.Status.Placement.ClusterUID].Health != health.Unreachable {
		return proceed
	}
	changed := false
	for _, name := range status.AgentConditions {
		if meta.IsStatusConditionTrue(s.Status.Conditions, name) {
			changed = status.SetUnknown(s, name, v1alpha1.ReasonMemberUnreachable,
				fmt.Sprintf("%s is unreachable; this was so when it sent its last heartbeat", s.Status.Placement.ClusterName)) || changed
		}
	}
	if changed {
		p.warn(v1alpha1.EventUnreached, "Watch", fmt.Sprintf("member %s is unreachable: the session shows its last known state", s.Status.Placement.ClusterName))
	}
	return proceed
}
