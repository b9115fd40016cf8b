package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// welcomeTimeout is how long the hub may take to answer Hello.
const welcomeTimeout = 10 * time.Second

var (
	errWelcomeTimeout = errors.New("the hub did not answer Hello in time")
	errHubEnded       = errors.New("the hub ended the stream")
)

// stream is the I/O of one Machine. Goroutines receive, send, renew the lease, watch the
// hub's progress, wait for a new certificate and store terms; the first error ends all.
type stream struct {
	*Client
	rpc     fleetv1.FleetServiceClient
	wire    grpc.BidiStreamingClient[fleetv1.ConnectRequest, fleetv1.ConnectResponse]
	hello   *fleetv1.Hello
	machine *Machine // guarded by Client.mu
	// credential of the connection.
	credential *Credential
	// welcomed is closed by the receiver, and renewEvery set before.
	welcomed   chan struct{}
	renewEvery time.Duration
	served     atomic.Bool
	// blockedSince is when the current send began, in nanoseconds after began, or 0.
	blockedSince atomic.Int64
	began        time.Time
	// renewed receives an item for a renewal's term that is not stored yet.
	renewed chan struct{}
}

// connect runs one stream to its end, and returns whether it reached state Serving. It
// raises the highest term in hello.
func (c *Client) connect(ctx context.Context, hello *fleetv1.Hello) (served bool, err error) {
	conn, credential, err := c.options.dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer func() { c.options.Credentials.Ended(credential, err) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	s := &stream{
		Client: c, rpc: fleetv1.NewFleetServiceClient(conn), hello: hello, credential: credential, welcomed: make(chan struct{}),
		began:   time.Now(),
		renewed: make(chan struct{}, 1),
		machine: NewMachine(proto.Clone(hello).(*fleetv1.Hello), c.reporter, c.results),
	}
	s.machine.capacity = c.capacity
	defer func() { c.capacity = s.machine.capacity }()
	if s.wire, err = s.rpc.Connect(ctx); err != nil {
		return false, fmt.Errorf("connecting: %w", err)
	}
	group.Go(func() error { return s.receive(ctx) })
	group.Go(func() error { return s.send(ctx) })
	group.Go(func() error { return s.renew(ctx) })
	group.Go(func() error { return s.watch(ctx) })
	group.Go(func() error { return s.replaced(ctx) })
	group.Go(func() error { return s.storeTerms(ctx) })
	err = group.Wait()
	metricConnected.Set(0)
	metricConnects.WithLabelValues(fmt.Sprint(s.served.Load())).Inc()
	return s.served.Load(), err
}

func (s *stream) receive(ctx context.Context) error {
	for {
		message, err := s.wire.Recv()
		if errors.Is(err, io.EOF) {
			return errHubEnded
		}
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		s.mu.Lock()
		effect, err := s.machine.Receive(message)
		s.updateServing()
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if err := s.apply(ctx, effect); err != nil {
			return err
		}
		s.signal() // An acknowledgement may have opened the window.
	}
}

func (s *stream) apply(ctx context.Context, effect Effect) error {
	switch {
	case effect.Welcome != nil:
		return s.begin(ctx, effect.Welcome)
	case effect.List:
		return s.list(ctx)
	case effect.Templates != nil:
		s.member.Capacity.SetTemplates(effect.Templates)
	case effect.Door != nil && s.member.Door != nil:
		s.member.Door.SetDoor(effect.Door)
	}
	metricOrders.Add(float64(len(effect.Orders)))
	for _, order := range effect.Orders {
		s.member.Orders.Put(order)
	}
	return nil
}

// begin stores the hub's term before anything else, so that no order of an earlier hub can
// follow, in any process.
func (s *stream) begin(ctx context.Context, w *fleetv1.Welcome) error {
	s.renewEvery = renewInterval(w)
	close(s.welcomed)
	s.options.Credentials.Used(s.credential)
	term := HubTerm{Term: w.GetHubTerm(), Proof: w.GetHubTermProof()}
	if err := s.observe(ctx, term); err != nil {
		return err
	}
	s.raise(term)
	return s.inventory(ctx)
}

// observe stores a term. It retries until it succeeds or the stream ends, and the lease is
// renewed meanwhile.
func (s *stream) observe(ctx context.Context, term HubTerm) error {
	logged := false
	ok := untilDone(ctx, func() error {
		err := s.member.Terms.Observe(ctx, term)
		if err != nil && !logged {
			logged = true
			log.FromContext(ctx).Error(err, "storing the hub's term before the inventory is sent, will retry")
		}
		return err
	})
	if !ok {
		return ctx.Err()
	}
	return nil
}

// inventory lists the assignments. Later changes are marked and sent again.
func (s *stream) inventory(ctx context.Context) error {
	refs, err := s.listAssignments(ctx)
	if err != nil {
		return err
	}
	countedFrom := s.member.Capacity.NextSequence()
	s.do(func() { s.machine.Begin(refs, countedFrom) })
	log.FromContext(ctx).Info("Connected to the hub", "hub", s.options.HubAddress,
		"hubTerm", s.highest().Term, "assignments", len(refs))
	return nil
}

// list answers the hub's request for a part of the inventory.
func (s *stream) list(ctx context.Context) error {
	refs, err := s.listAssignments(ctx)
	if err != nil {
		return err
	}
	s.do(func() { s.machine.Listed(refs) })
	return nil
}

// listAssignments returns the member's assignments, and updates the summary.
func (s *stream) listAssignments(ctx context.Context) ([]Ref, error) {
	items, err := s.member.Assignments.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the inventory: %w", err)
	}
	s.summaryMu.Lock()
	s.summary.Update(items, s.member.Assignments.Render)
	s.summaryMu.Unlock()
	refs := make([]Ref, len(items))
	for i := range items {
		refs[i] = items[i].Ref
	}
	return refs, nil
}

// syncState returns the digests for a renewal. A renewal is also sent while assignments
// can't be listed.
func (s *stream) syncState(ctx context.Context) *fleetv1.SyncState {
	if !s.served.Load() {
		return nil
	}
	if _, err := s.listAssignments(ctx); err != nil {
		return nil
	}
	s.summaryMu.Lock()
	assigned, assignments := s.summary.Assigned()
	s.summaryMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.SyncState(assigned, assignments)
}

func (s *stream) hash(ref Ref) (uint64, bool) {
	s.summaryMu.Lock()
	defer s.summaryMu.Unlock()
	return s.summary.Hash(ref)
}

// watch ends the stream if the hub does not answer Hello in time, or does not keep up.
func (s *stream) watch(ctx context.Context) error {
	select {
	case <-s.welcomed:
	case <-time.After(welcomeTimeout):
		return errWelcomeTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
	maxSend := max(s.options.scaled(sendTimeout), minSendTimeout)
	s.mu.Lock()
	period := min(s.machine.ackTimeout, maxSend) / ticksPerTimeout
	s.mu.Unlock()
	ticker := time.NewTicker(max(period, time.Millisecond))
	defer ticker.Stop()
	for {
		s.mu.Lock()
		err := s.machine.Tick(time.Now())
		s.mu.Unlock()
		if err != nil {
			return err
		}
		since := s.blockedSince.Load()
		if blocked := time.Since(s.began) - time.Duration(since); since > 0 && blocked > maxSend {
			return fmt.Errorf("%w: it has not read a message for %s", ErrStalled, blocked.Round(time.Millisecond))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ticksPerTimeout is how often a stream is checked within its timeouts.
const ticksPerTimeout = 12

// send sends the machine's messages.
func (s *stream) send(ctx context.Context) error {
	for {
		message, wait := s.next()
		if message != nil {
			s.blockedSince.Store(int64(time.Since(s.began)))
			err := s.wire.Send(message)
			s.blockedSince.Store(0)
			if errors.Is(err, io.EOF) {
				return nil // The receiver returns the stream's error.
			}
			if err != nil {
				return fmt.Errorf("sending: %w", err)
			}
			metricReports.Add(float64(len(message.GetInventory().GetItems()) + len(message.GetReports().GetItems())))
			continue
		}
		if err := s.idle(ctx, wait); err != nil {
			return err
		}
	}
}

func (s *stream) next() (*fleetv1.ConnectRequest, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capacityChanged {
		s.capacityChanged = false
		s.machine.CapacityChanged()
	}
	message, wait := s.machine.Next(time.Now(), Sources{
		Render: s.member.Assignments.Render, Capacity: s.member.Capacity.Report, Hash: s.hash,
	})
	s.updateServing()
	metricDirty.Set(float64(s.reporter.Len()))
	return message, wait
}

// idle waits until there may be something to send.
func (s *stream) idle(ctx context.Context, wait time.Duration) error {
	var due <-chan time.Time
	if wait > 0 {
		due = time.After(wait)
	}
	select {
	case <-s.wake:
	case <-due:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// updateServing records that the stream is in state Serving. It is called with the lock
// held.
func (s *stream) updateServing() {
	if s.machine.State() == Serving && !s.served.Swap(true) {
		metricConnected.Set(1)
	}
}
