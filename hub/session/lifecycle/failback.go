package lifecycle

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// failBack returns a session to the copy that a failover left behind: the copy's member
// gets the session's next epoch, under which an agent keeps its Pod, and the replacement is
// left behind instead.
func failBack(p *pass) next {
	s := p.Session
	for _, rep := range p.in.Reports {
		if !assignment.FailsBack(s, p.in.Template.Run, p.in.Policies, rep.Ref, p.in.Members[rep.Ref.UID].Health, rep.Assignment) {
			continue
		}
		if resolve(p) == done {
			return done
		}
		now, replacement := p.in.Now, s.Status.Placement
		status.EndRun(s, now)
		status.FailBack(s, rep.Ref, p.in.nextEpoch(s), status.Seconds(now))
		if url, ok := p.url(); ok {
			s.Status.Endpoint = &v1alpha1.SessionEndpoint{URL: url}
		}
		p.Epoch, p.Reserve = s.Status.Epoch, true
		p.normal(v1alpha1.EventHealed, "Heal", fmt.Sprintf(
			"its first copy still runs in %s and is kept, as its healing requires; the replacement in %s is stopped", rep.Ref.Name, replacement.ClusterName))
		return done
	}
	return proceed
}
