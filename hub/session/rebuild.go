package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// rebuild is done once, before the first decision.
type rebuild struct {
	mu   sync.Mutex
	done bool
}

// Rebuild reserves room for every session that is to run somewhere, so that a
// hub that has just begun to lead gives nothing away twice, once the fleet knows
// every member. The members' inventories and reports then take over: it must be done
// before any comes in, or nothing would ever say that they count the sessions. Once
// is enough.
func (r *Reconciler) Rebuild(ctx context.Context) error {
	r.rebuilt.mu.Lock()
	defer r.rebuilt.mu.Unlock()
	if r.rebuilt.done {
		return nil
	}
	// A session whose member the fleet does not know yet looks as if it were lost.
	if r.Register != nil {
		if err := r.Register(ctx); err != nil {
			return err
		}
	}
	list := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("rebuilding the reservations: %w", err)
	}
	for i := range list.Items {
		s := &list.Items[i]
		r.Fleet.Observe(s, false)
		for _, o := range s.Status.Releasing {
			r.Fleet.Reserve(s.UID, o.Epoch, 1, o.ClusterUID, templateOf(s), placement.ResourcesOf(s.Status.Resources))
		}
		if status.ToRun(s) {
			r.reserve(s)
		}
	}
	r.rebuilt.done = true
	return nil
}

// reserve charges a member for the run of a session that is placed there.
func (r *Reconciler) reserve(s *v1alpha1.VDISession) {
	at := s.Status.Placement
	r.Fleet.Reserve(s.UID, at.Epoch, at.Run, at.ClusterUID, templateOf(s), placement.ResourcesOf(s.Status.Resources))
}

func templateOf(s *v1alpha1.VDISession) placement.TemplateKey {
	return placement.TemplateKey{Name: s.Spec.Template, Revision: s.Status.TemplateRevision}
}
