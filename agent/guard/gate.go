package guard

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// Gate waits before a desktop until the agent permits its start.
type Gate struct {
	options ClientOptions
	client  *agentClient
	// denied is why the last request was denied.
	denied string
}

// NewGate returns a Gate. Run waits.
func NewGate(options ClientOptions) (*Gate, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	asks, err := newClient(options, true, boottime.Now)
	if err != nil {
		return nil, err
	}
	return &Gate{options: options, client: asks}, nil
}

// Run returns nil once the desktop may start, and an error only if the context ends before:
// its exit code is what permits the start.
func (g *Gate) Run(ctx context.Context) error {
	for {
		_, left, err := g.client.ask(ctx)
		if err == nil && left <= 0 {
			err = errNoLease
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the gate was stopped: %w", ctx.Err())
		}
		g.logChange(ctx, err)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(g.options.jittered(askEvery)):
		case <-ctx.Done():
		}
	}
}

// logChange logs what has changed.
func (g *Gate) logChange(ctx context.Context, err error) {
	switch {
	case err == nil:
		log.FromContext(ctx).Info("The desktop may start")
	case err.Error() != g.denied:
		g.denied = err.Error()
		log.FromContext(ctx).Info("The desktop waits", "reason", g.denied)
	}
}
