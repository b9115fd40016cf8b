package session

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/drain"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
)

// drainer records which sessions are moved out of drained members.
type drainer struct {
	tracker *drain.Tracker
	fleet   Drains
	enqueue func(session types.NamespacedName)
}

func (r *Reconciler) drainer() *drainer {
	return &drainer{tracker: &r.drains, fleet: r.Fleet, enqueue: r.Enqueue}
}

// allows reports whether the budget of a drain allows a session to move now.
func (d *drainer) allows(s *v1alpha1.VDISession, l drain.Session) bool {
	allowed, update := d.tracker.Evict(s.Status.Placement.ClusterUID, s.UID, l)
	d.show(update)
	return allowed
}

// record records a session's part in the drain of its member.
func (d *drainer) record(s *v1alpha1.VDISession, part *lifecycle.Drain) {
	switch {
	case part == nil:
	case part.Drop:
		d.show(d.tracker.Drop(part.Member, s.UID))
	default:
		d.show(d.tracker.Set(part.Member, s.UID, part.Session))
	}
}

// show publishes the progress of a member's drain, and enqueues the sessions that the budget
// now allows to move.
func (d *drainer) show(u drain.Update) {
	if u.Member == "" {
		return
	}
	d.fleet.ShowDrain(u.Member, u.Counts)
	scheduling.Requeued(scheduling.EventDrain, len(u.Next))
	for _, session := range u.Next {
		d.enqueue(session)
	}
}
