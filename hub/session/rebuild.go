package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// rebuild is done once, before the first decision.
type rebuild struct {
	mu   sync.Mutex
	done bool
}

// Rebuild reserves room for every session that is placed already, so that a
// hub that has just begun to lead gives nothing away twice. The members'
// inventories and reports then take over: it must be done before any comes in,
// or nothing would ever say that they count the sessions. Once is enough.
func (r *Reconciler) Rebuild(ctx context.Context) error {
	r.rebuilt.mu.Lock()
	defer r.rebuilt.mu.Unlock()
	if r.rebuilt.done {
		return nil
	}
	list := &v1alpha1.VDISessionList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("rebuilding the reservations: %w", err)
	}
	for i := range list.Items {
		s := &list.Items[i]
		r.Fleet.Observe(s, false)
		for _, o := range outstanding(s) {
			r.Fleet.Reserve(s.UID, o.Epoch, o.ClusterUID, templateOf(s), placement.ResourcesOf(s.Status.Resources))
		}
	}
	r.rebuilt.done = true
	return nil
}

func templateOf(s *v1alpha1.VDISession) placement.TemplateKey {
	return placement.TemplateKey{Name: s.Spec.Template, Revision: s.Status.TemplateRevision}
}
