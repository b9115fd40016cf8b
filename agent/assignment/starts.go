package assignment

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// startWait is how long a worker waits for the start of a desktop at most: one that waits for
// agent/session's backoff must not keep back the others.
const startWait = 2 * time.Second

// Starts bounds the desktops that are started at once: a worker that has stored an assignment
// waits until agent/session has reconciled it. In a burst the first desktops are then ready
// while the last assignments are not stored yet, and no more than the workers compete for the
// member's API server. A nil Starts bounds nothing.
type Starts struct{ reconciled sync.Map }

// begin is called before an assignment is created.
func (s *Starts) begin(key types.NamespacedName) {
	if s != nil {
		s.reconciled.Store(key, make(chan struct{}))
	}
}

// End is called when an assignment was reconciled, or could not be created.
func (s *Starts) End(key types.NamespacedName) {
	if s == nil {
		return
	}
	if reconciled, ok := s.reconciled.LoadAndDelete(key); ok {
		close(reconciled.(chan struct{}))
	}
}

// await waits for the end of a start that has begun.
func (s *Starts) await(ctx context.Context, key types.NamespacedName) {
	if s == nil {
		return
	}
	reconciled, ok := s.reconciled.Load(key)
	if !ok {
		return
	}
	timeout := time.NewTimer(startWait)
	defer timeout.Stop()
	select {
	case <-reconciled.(chan struct{}):
	case <-timeout.C:
	case <-ctx.Done():
	}
	s.reconciled.CompareAndDelete(key, reconciled)
}
