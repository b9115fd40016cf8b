package session

import (
	"context"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// failBack returns a session to the copy that a failover left behind: the copy's member
// gets the session's next epoch, under which an agent keeps its Pod, and the replacement is
// left behind instead.
func (r *Reconciler) failBack(ctx context.Context, p *pass) (next, error) {
	s := p.session
	for i := range p.reports {
		rep := &p.reports[i]
		yes, err := assignment.FailsBack(ctx, r.Client, r.Revisions, s, rep.Ref, r.Fleet.HealthOf(rep.Ref.UID), rep.Assignment)
		if err != nil {
			return done, err
		}
		if !yes {
			continue
		}
		if _, err := r.resolve(ctx, p); err != nil {
			return done, err
		}
		now, replacement := r.Clock.Now(), s.Status.Placement
		status.EndRun(s, now)
		status.FailBack(s, rep.Ref, r.nextEpoch(s), status.Seconds(now))
		if url, ok := r.urlOf(s, p.spec); ok {
			s.Status.URL = url
		}
		p.events = append(p.events, func() {
			r.memory.Give(s.UID, s.Status.Epoch)
			r.reserve(s)
		})
		p.record(r, "Normal", v1alpha1.EventHealed, "Heal", fmt.Sprintf(
			"its first copy runs still in %s, and is kept, as its healing says; the replacement in %s is stopped", rep.Ref.Name, replacement.ClusterName))
		return done, nil
	}
	return goOn, nil
}
