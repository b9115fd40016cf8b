package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

// debounce is the least time between two batches of reports, well within the 250 ms of
// docs/design.md, section 10.
const debounce = 50 * time.Millisecond

// ErrSuperseded is what Start returns when another replica of the agent is connected for
// the member, and this one can't renew its lock.
var ErrSuperseded = errors.New("another agent of this member is connected to the hub, and this one can't renew its lock")

// Client keeps the agent connected to the hub. It is a manager.Runnable that needs leader
// election: of several replicas only one connects. Mark, Add and CapacityChanged may be
// called at any time by any goroutine and never block.
type Client struct {
	options Options
	member  Member

	mu       sync.Mutex
	reporter *Reporter
	results  *Results
	// summaryMu guards the summary, whose first update takes long.
	summaryMu sync.Mutex
	summary   Summary
	// capacity has the reports that the last stream has sent.
	capacity capacityReports
	// capacityChanged is set if the machine must be notified of a new report.
	capacityChanged bool
	wake            chan struct{}
}

// NewClient returns a Client that Start runs.
func NewClient(options Options, member Member) *Client {
	return &Client{
		options: options, member: member,
		reporter: NewReporter(debounce), results: NewResults(),
		wake: make(chan struct{}, 1),
	}
}

// NeedLeaderElection returns true: only the leader connects.
func (c *Client) NeedLeaderElection() bool { return true }

// Mark reports an assignment whose status has changed, or that is gone.
func (c *Client) Mark(ref Ref) { c.do(func() { c.reporter.Mark(ref) }) }

// Add sends the answer to an order, once there is a stream.
func (c *Client) Add(result *fleetv1.OrderResult) { c.do(func() { c.results.Add(result) }) }

// CapacityChanged sends the newest capacity report.
func (c *Client) CapacityChanged() { c.do(func() { c.capacityChanged = true }) }

// do makes a change that may produce messages.
func (c *Client) do(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.signal()
}

func (c *Client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Start connects, and reconnects, until the context ends or another replica of the agent
// leads.
func (c *Client) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("link"))
	hello, ok := c.prepareHello(ctx)
	if !ok {
		return nil
	}
	reason := ""
	for {
		served, err := c.connect(ctx, hello)
		if ctx.Err() != nil {
			return nil
		}
		if c.superseded(err) {
			return fmt.Errorf("%w: %w", ErrSuperseded, err)
		}
		if served {
			reason = ""
		}
		logger := log.FromContext(ctx)
		if reason == err.Error() {
			logger = logger.V(1) // a repetition
		}
		reason = err.Error()
		logger.Info("Not connected to the hub", "hub", c.options.HubAddress, "reason", reason)
		select {
		case <-time.After(c.options.scaled(reconnectDelay(rand.Float64()))):
		case <-ctx.Done():
			return nil
		}
	}
}

// superseded reports whether a stream ended because another agent is connected for the
// member, while this one is not certain to lead. One that is certain stays: the other agent
// has its credentials, and is not one of its replicas.
func (c *Client) superseded(err error) bool {
	return status.Code(err) == codes.AlreadyExists && !c.options.Leading()
}

// prepareHello waits for the member's caches and API server, and returns the Hello. It
// returns false if the context ends first.
func (c *Client) prepareHello(ctx context.Context) (*fleetv1.Hello, bool) {
	if !c.member.Synced(ctx) {
		return nil, false
	}
	var hello *fleetv1.Hello
	ok := untilDone(ctx, func() (err error) {
		if hello, err = c.newHello(ctx); err != nil {
			log.FromContext(ctx).Error(err, "preparing to connect, will retry")
		}
		return err
	})
	return hello, ok
}

func (c *Client) newHello(ctx context.Context) (*fleetv1.Hello, error) {
	fingerprint, err := c.member.Fingerprint(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's fingerprint: %w", err)
	}
	agentTerm, highest, err := c.member.Terms.Begin(ctx)
	if err != nil {
		return nil, err
	}
	supported := version.Supported()
	return &fleetv1.Hello{
		Fingerprint: fingerprint, Instance: c.options.Instance, AgentVersion: c.options.AgentVersion,
		AgentTerm: agentTerm, HighestHubTerm: highest.Term, HighestHubTermProof: highest.Proof, Restrictions: c.options.Restrictions,
		MinProtocol: supported.Min, MaxProtocol: supported.Max,
		Capabilities: c.options.Capabilities, RequiredCapabilities: c.options.RequiredCapabilities,
	}, nil
}
