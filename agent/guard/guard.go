package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

// Timings before the time factor.
const (
	// renewEvery is how often the agent is asked, and askEvery until there is a lease.
	renewEvery = 5 * time.Second
	askEvery   = time.Second
	// askTimeout is for one answer.
	askTimeout = 2 * time.Second
	// least of these, however small the factor.
	least = 20 * time.Millisecond
)

// pauseSkew is by how much the node's clock may be set without shortening the lease.
const pauseSkew = 10 * time.Second

// The desktop's own times, which no factor scales.
const (
	probeEvery   = 5 * time.Second
	probeFirst   = time.Second
	probeTimeout = 2 * time.Second
	// closed is how long a desktop may not answer on its port: as long as the
	// kubelet lets one that has no guard.
	closed = 2 * time.Minute
)

// Guard is the process beside one desktop. Its connections are limited, since the kubelet
// ends a desktop whose guard can't answer probes.
type Guard struct {
	options Options
	client  *agentClient
	clock   func() time.Duration

	mu      sync.Mutex
	machine *Machine
	// denied is why the last request was denied.
	denied string
}

// New returns a Guard that Run runs.
func New(options Options) (*Guard, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	clock := fence.NewElapsed(pauseSkew).Now
	asks, err := newClient(options.ClientOptions, false, clock)
	if err != nil {
		return nil, err
	}
	return &Guard{
		options: options, client: asks, clock: clock,
		machine: NewMachine(Limits{Start: options.StartTimeout, Closed: closed}),
	}, nil
}

// Run guards until the context ends.
func (g *Guard) Run(ctx context.Context) error {
	address := net.JoinHostPort(g.options.PodIP, strconv.Itoa(int(g.options.Port)))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for the kubelet: %w", err)
	}
	server := limitedServer(g)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(newLimitListener(listener, maxProbes, maxProbesPerAddress)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving the kubelet: %w", err)
		}
		return nil
	})
	group.Go(func() error { <-ctx.Done(); return server.Close() })
	group.Go(func() error { return repeat(ctx, g.ask) })
	group.Go(func() error { return repeat(ctx, g.probe) })
	return group.Wait()
}

// repeat calls do until the context ends, each time after the wait that it returns.
func repeat(ctx context.Context, do func(context.Context) time.Duration) error {
	for {
		select {
		case <-time.After(do(ctx)):
		case <-ctx.Done():
			return nil
		}
	}
}

// ask requests the lease from the agent, and returns when to do so again.
func (g *Guard) ask(ctx context.Context) time.Duration {
	asked, left, err := g.client.ask(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock()
	if err == nil {
		g.machine.Granted(asked, left, now)
	}
	g.logChange(ctx, err)
	wait := renewEvery
	if g.machine.Left(now) == 0 {
		wait = askEvery
	}
	return g.options.jittered(wait)
}

// logChange logs what has changed.
func (g *Guard) logChange(ctx context.Context, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	if why == g.denied || ctx.Err() != nil {
		return
	}
	g.denied = why
	if why == "" {
		log.FromContext(ctx).Info("The desktop may run", "left", g.machine.Left(g.clock()).String())
		return
	}
	log.FromContext(ctx).Info("No leave", "reason", why, "left", g.machine.Left(g.clock()).String())
}

// probe checks whether the desktop answers on its port, and returns when to do so again.
func (g *Guard) probe(ctx context.Context) time.Duration {
	g.mu.Lock()
	started := g.machine.Started()
	g.mu.Unlock()
	if !started {
		return probeFirst
	}
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(g.options.PodIP, strconv.Itoa(int(g.options.DesktopPort))))
	if err != nil {
		return probeFirst
	}
	_ = conn.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.machine.Answers(g.clock())
	return probeEvery
}

// ServeHTTP answers the kubelet.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	now := g.clock()
	var err error
	switch r.URL.Path {
	case render.PathLease:
		err = g.machine.MayRun(now)
	case render.PathDesktop:
		g.machine.Runs(now)
		err = g.machine.Alive(now)
	default:
		g.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	if err != nil && g.denied != "" {
		err = fmt.Errorf("%w (%s)", err, g.denied)
	}
	g.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}
