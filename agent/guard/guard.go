package guard

import (
	"context"
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
	// renewInterval is how often the lease is requested, and retryInterval until there is
	// one.
	renewInterval = 5 * time.Second
	retryInterval = time.Second
	// requestTimeout limits one request.
	requestTimeout = 2 * time.Second
	// minInterval is the minimum of the scaled intervals.
	minInterval = 20 * time.Millisecond
)

// pauseSkew is the most by which the node's clock may be set without shortening the lease.
const pauseSkew = 10 * time.Second

// Timings of the desktop's probes, which are not scaled.
const (
	probeInterval      = 5 * time.Second
	probeRetryInterval = time.Second
	probeTimeout       = 2 * time.Second
	// closedTimeout is how long a desktop's port may be closed: as long as the kubelet
	// permits without a guard.
	closedTimeout = 2 * time.Minute
)

// Guard is the process beside one desktop. It limits its connections, since the kubelet
// stops a desktop whose guard can't answer probes.
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
	client, err := newClient(options.ClientOptions, false, clock)
	if err != nil {
		return nil, err
	}
	return &Guard{
		options: options, client: client, clock: clock,
		machine: NewMachine(Limits{Start: options.StartTimeout, Closed: closedTimeout}),
	}, nil
}

// Run guards until the context ends.
func (g *Guard) Run(ctx context.Context) error {
	address := net.JoinHostPort(g.options.PodIP, strconv.Itoa(int(g.options.Port)))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for the kubelet: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := serve(ctx, newLimitListener(listener, maxProbes, maxProbesPerAddress), g); err != nil {
			return fmt.Errorf("serving the kubelet: %w", err)
		}
		return nil
	})
	group.Go(func() error { return repeat(ctx, g.renew) })
	group.Go(func() error { return repeat(ctx, g.probe) })
	return group.Wait()
}

// repeat calls do until the context ends, each time after the delay that it returned.
func repeat(ctx context.Context, do func(context.Context) time.Duration) error {
	for {
		select {
		case <-time.After(do(ctx)):
		case <-ctx.Done():
			return nil
		}
	}
}

// renew requests the lease from the agent, and returns the delay before the next request.
func (g *Guard) renew(ctx context.Context) time.Duration {
	sent, left, err := g.client.send(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock()
	if err == nil {
		g.machine.Granted(sent, left, now)
	}
	g.logChange(ctx, err)
	wait := renewInterval
	if g.machine.Left(now) == 0 {
		wait = retryInterval
	}
	return g.options.jittered(wait)
}

// logChange logs when requests begin to succeed, and each new reason of a failure.
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
	log.FromContext(ctx).Info("The agent granted no lease", "reason", why, "left", g.machine.Left(g.clock()).String())
}

// probe checks whether the desktop answers on its port, and returns the delay before the
// next check.
func (g *Guard) probe(ctx context.Context) time.Duration {
	g.mu.Lock()
	started := g.machine.started
	g.mu.Unlock()
	if !started {
		return probeRetryInterval
	}
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(g.options.PodIP, strconv.Itoa(int(g.options.DesktopPort))))
	if err != nil {
		return probeRetryInterval
	}
	_ = conn.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.machine.Answers(g.clock())
	return probeInterval
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
