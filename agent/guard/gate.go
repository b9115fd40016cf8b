package guard

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
)

// Gate waits before a desktop until the agent says that it may start.
type Gate struct {
	asking Asking
	asker  *asker
	// denied is why there was no leave when last asked.
	denied string
}

// NewGate makes a gate; Run waits.
func NewGate(asking Asking) (*Gate, error) {
	if err := asking.Validate(); err != nil {
		return nil, err
	}
	asks, err := newAsker(asking, true, fence.SinceBoot)
	if err != nil {
		return nil, err
	}
	return &Gate{asking: asking, asker: asks}, nil
}

// Run returns nil once the desktop may start, and an error only if the context ends
// before: what starts the desktop reads nil for leave.
func (g *Gate) Run(ctx context.Context) error {
	for {
		_, left, err := g.asker.ask(ctx)
		if err == nil && left <= 0 {
			err = errNoLease
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the gate was asked to end: %w", ctx.Err())
		}
		g.note(ctx, err)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(g.asking.about(askFirst)):
		case <-ctx.Done():
		}
	}
}

// note logs what has changed.
func (g *Gate) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		log.FromContext(ctx).Info("The desktop may start")
	case err.Error() != g.denied:
		g.denied = err.Error()
		log.FromContext(ctx).Info("The desktop waits", "reason", g.denied)
	}
}
