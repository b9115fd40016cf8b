package session

import (
	"context"

	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Rebuild reserves capacity for every session that is to run somewhere, once the fleet has
// every member, so that a new leader reserves nothing twice. The members' inventories and
// reports then take over: it must run before the first of them arrives, or no report would
// ever count the sessions. It runs once.
func (r *Reconciler) Rebuild(ctx context.Context) error {
	r.rebuilt.Lock()
	defer r.rebuilt.Unlock()
	if r.rebuilt.done {
		return nil
	}
	// A session whose member the fleet does not have yet would appear lost.
	if r.Register != nil {
		if err := r.Register(ctx); err != nil {
			return err
		}
	}
	for s := range r.Cached.All() {
		r.Reservations.Observe(s, false)
		for _, o := range s.Status.Releasing {
			r.Reservations.Reserve(s, o.Epoch, 1, o.ClusterUID)
		}
		if status.ToRun(s) {
			at := s.Status.Placement
			r.Reservations.Reserve(s, at.Epoch, at.Run, at.ClusterUID)
		}
	}
	r.rebuilt.done = true
	return nil
}
