package assignment

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// issuedEpochs remembers, for the assignments in the API server, which epochs this very
// process was the first to store: an epoch that was ordered since this process began is
// one that the hub cannot have placed elsewhere before. An order that was found stored,
// or whose answer was lost, is not among them.
type issuedEpochs struct {
	mu     sync.Mutex
	epochs map[types.UID]int64
}

// add takes an assignment that the API server has just stored.
func (i *issuedEpochs) add(a *v1alpha1.SessionAssignment) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.epochs == nil {
		i.epochs = map[types.UID]int64{}
	}
	i.epochs[a.UID] = max(i.epochs[a.UID], a.Spec.Epoch)
}

// forget drops an assignment that is gone.
func (i *issuedEpochs) forget(assignment types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.epochs, assignment)
}

// has reports whether the epoch of an assignment is among them.
func (i *issuedEpochs) has(a *v1alpha1.SessionAssignment) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	epoch, ok := i.epochs[a.UID]
	return ok && epoch >= a.Spec.Epoch
}
