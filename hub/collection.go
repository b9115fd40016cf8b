package hub

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// takeoverGOGC is Go's default. The chart sets a lower GOGC for many sessions.
	takeoverGOGC = 100
	// takeoverTime is more than a new leader needs until it serves all members.
	takeoverTime = time.Minute
)

// addCollection has a new leader collect garbage less often until it serves all members: a low GOGC, which
// keeps the memory of many sessions low, would take half of its CPU then. GOMEMLIMIT still holds, and
// without it nothing changes.
func addCollection(mgr manager.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(relaxCollection)); err != nil {
		return fmt.Errorf("adding the GOGC of a new leader: %w", err)
	}
	return nil
}

func relaxCollection(ctx context.Context) error {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		return nil
	}
	configured := debug.SetGCPercent(takeoverGOGC)
	defer debug.SetGCPercent(configured)
	if configured < 0 || configured >= takeoverGOGC {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(takeoverTime):
	}
	return nil
}
