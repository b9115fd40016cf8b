package guard

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// Gate waits until the agent permits the start of its desktop.
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
	client, err := newClient(options, true, boottime.Now)
	if err != nil {
		return nil, err
	}
	return &Gate{options: options, client: client}, nil
}

// Run returns nil once the desktop may start, and an error only if the context ends before.
// The exit code permits the start.
func (g *Gate) Run(ctx context.Context) error {
	for {
		_, left, err := g.client.send(ctx)
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
		case <-time.After(g.options.jittered(retryInterval)):
		case <-ctx.Done():
		}
	}
}

// logChange logs the permission, and each new reason of a denial.
func (g *Gate) logChange(ctx context.Context, err error) {
	switch {
	case err == nil:
		log.FromContext(ctx).Info("The desktop may start")
	case err.Error() != g.denied:
		g.denied = err.Error()
		log.FromContext(ctx).Info("The desktop waits for the agent's permission", "reason", g.denied)
	}
}
