package session

import (
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/drain"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
)

// mayEvict reports whether the budget of a drain allows a session to move now.
func (r *Reconciler) mayEvict(s *v1alpha1.VDISession, l drain.Session) bool {
	allowed, update := r.drains.Evict(s.Status.Placement.ClusterUID, s.UID, l)
	r.showDrain(update)
	return allowed
}

// recordDrain records a session's part in the drain of its member.
func (r *Reconciler) recordDrain(s *v1alpha1.VDISession, plan *lifecycle.Plan) {
	switch {
	case plan.LeavesDrain:
		r.showDrain(r.drains.Drop(s.Status.Placement.ClusterUID, s.UID))
	case plan.Drain != nil:
		r.showDrain(r.drains.Set(s.Status.Placement.ClusterUID, s.UID, *plan.Drain))
	}
}

// showDrain publishes the progress of a member's drain, and enqueues the sessions that the budget
// now allows to move.
func (r *Reconciler) showDrain(u drain.Update) {
	if u.Member == "" {
		return
	}
	r.Fleet.ShowDrain(u.Member, u.Counts)
	scheduling.Requeued(scheduling.EventDrain, len(u.Next))
	for _, session := range u.Next {
		r.Enqueue(session)
	}
}
