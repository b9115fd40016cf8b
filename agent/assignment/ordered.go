package assignment

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// ordered remembers of the assignments that are there which epochs this very
// process was the first to store: what it was ordered since it began, the hub
// cannot have given to another member before. An order that was found stored, or
// whose answer was lost, is none of them.
type ordered struct {
	mu     sync.Mutex
	epochs map[types.UID]int64
}

// note takes an assignment as the API server has just stored it.
func (o *ordered) note(a *v1alpha1.SessionAssignment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epochs == nil {
		o.epochs = map[types.UID]int64{}
	}
	o.epochs[a.UID] = max(o.epochs[a.UID], a.Spec.Epoch)
}

// forget an assignment that is gone.
func (o *ordered) forget(assignment types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.epochs, assignment)
}

// Ordered reports whether the epoch that an assignment has came to the member by
// an order to this process. It may be called by any goroutine.
func (s *Store) Ordered(a *v1alpha1.SessionAssignment) bool {
	s.ordered.mu.Lock()
	defer s.ordered.mu.Unlock()
	epoch, ok := s.ordered.epochs[a.UID]
	return ok && epoch >= a.Spec.Epoch
}
