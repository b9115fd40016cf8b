package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/objects"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// Timings before the time factor.
const (
	// skew is the most by which the wall clocks of a member's nodes may differ, or by which
	// one may be set while a lease runs.
	skew = 10 * time.Second
	// stepInterval is how often the keeper checks the lease, and retries what failed.
	stepInterval = time.Second
	// countInterval is how often it counts the fenced sessions of the member.
	countInterval = 10 * time.Second
	// minStepInterval is the minimum of the scaled stepInterval.
	minStepInterval = 20 * time.Millisecond
)

// requestTimeout limits the requests of one step to the API server.
const requestTimeout = 5 * time.Second

// State of the lease.
type State int

const (
	// Unknown means that its record was not read or written yet: no desktop is started or
	// stopped.
	Unknown State = iota
	// Valid means that fenced desktops may run, if the hub has affirmed them.
	Valid
	// Over means that no fenced desktop may run.
	Over
)

func (s State) String() string { return [...]string{"Unknown", "Valid", "Over"}[s] }

// Status is the state of the lease and how long it lasts.
type Status struct {
	State State
	// Left is how long running desktops may go on.
	Left time.Duration
}

// Keeper keeps the lease. It is a manager.Runnable that needs leader election:
// of several replicas only one has a lease. Its methods may be called by any
// goroutine, and never block.
type Keeper struct {
	// live reads from the API server; client reads from the manager's cache, which
	// has all SessionAssignments.
	live   client.Reader
	client client.Client
	// timeFactor scales every timing.
	timeFactor float64
	// Clock and BootID of the machine, which tests replace.
	Clock  func() boottime.Instant
	BootID func() (string, error)

	changes chan event.GenericEvent
	wake    chan struct{}
	loaded  chan struct{}

	mu sync.Mutex
	// lease is nil until its record was read.
	lease *lease
	// wanted is set if there are fenced desktops: the lease is kept durable.
	wanted bool

	// The fields below are for Start's goroutine alone.
	record    recordStore
	announced State
	countedAt time.Duration
	failed    bool
}

// NewKeeper returns a Keeper with its record in a namespace. Live reads from the API server,
// cached from the manager's cache.
func NewKeeper(live client.Reader, cached client.Client, namespace string, timeFactor float64) *Keeper {
	return &Keeper{
		live: live, client: cached, timeFactor: timeFactor,
		Clock:   boottime.Read,
		BootID:  boottime.ID,
		changes: make(chan event.GenericEvent, 1), wake: make(chan struct{}, 1), loaded: make(chan struct{}),
		record: recordStore{Store: objects.Store{Live: live, Client: cached, Namespace: namespace}},
	}
}

// NeedLeaderElection returns true: only the leader has a lease.
func (k *Keeper) NeedLeaderElection() bool { return true }

// Loaded waits until the record was read, before which no renewal counts. It returns false
// if the context ends first.
func (k *Keeper) Loaded(ctx context.Context) bool {
	select {
	case <-k.loaded:
		return true
	case <-ctx.Done():
		return false
	}
}

// Changes receives an event when the state of the lease changes.
func (k *Keeper) Changes() <-chan event.GenericEvent { return k.changes }

// Sending implements link.Lease.
func (k *Keeper) Sending() (granted func(length time.Duration)) {
	sent := k.Clock()
	return func(length time.Duration) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.lease != nil {
			k.lease.granted(Grant{Sent: sent, Length: length}, k.Clock())
			k.signal()
		}
	}
}

// Status returns the status of the lease now. When it is Valid, the manager's cache shows the
// mark of each assignment that must be affirmed: read it after the status, not before.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status()
}

// Require keeps the lease durable from now on, as a fenced session requires. It is Unknown
// until it is.
func (k *Keeper) Require() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.wanted || k.status().State == Unknown {
		k.wanted = true
		k.signal()
	}
}

func (k *Keeper) status() Status {
	if k.lease == nil {
		return Status{}
	}
	now := k.Clock()
	left := k.lease.left(now)
	switch {
	case left <= 0:
		return Status{State: Over}
	case !k.lease.isDurable(now):
		return Status{Left: left}
	default:
		return Status{State: Valid, Left: left}
	}
}

func (k *Keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Start keeps the lease until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("fence"))
	ticker := time.NewTicker(max(k.scaled(stepInterval), minStepInterval))
	defer ticker.Stop()
	for {
		err := k.step(ctx)
		k.logOnce(ctx, err)
		// After a failure only the ticker causes a retry.
		wake := k.wake
		if err != nil {
			wake = nil
		}
		select {
		case <-wake:
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// step does what is due.
func (k *Keeper) step(ctx context.Context) error {
	if k.lease == nil {
		if err := k.load(ctx); err != nil {
			return err
		}
	}
	k.announce(ctx)
	err := errors.Join(k.persist(ctx), k.countFenced(ctx))
	k.announce(ctx)
	return err
}

func (k *Keeper) load(ctx context.Context) error {
	boot, err := k.BootID()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	record, ok, err := k.record.load(ctx)
	if !ok {
		return err
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "The stored lease can't be read: fenced desktops wait for the hub")
	}
	k.mu.Lock()
	k.lease = restore(record, boot, k.Clock(), k.scaled(skew))
	k.mu.Unlock()
	close(k.loaded)
	return nil
}

// persist numbers a lapse, marks assignments, or stores a renewal, as required.
func (k *Keeper) persist(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	k.mu.Lock()
	now, wanted := k.Clock(), k.wanted
	renewed := k.lease.renewed(now)
	lapsed, marking := k.lease.lapsed(), k.lease.record.Marking
	next, due := k.lease.refresh(now)
	k.mu.Unlock()
	switch {
	case renewed && lapsed:
		return k.number(ctx)
	case renewed && marking:
		return k.mark(ctx)
	case wanted && due:
		return k.save(ctx, next)
	}
	return nil
}

func (k *Keeper) save(ctx context.Context, r pendingRecord) error {
	if err := k.record.save(ctx, r.Record); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lease.stored(r)
	return nil
}

// countFenced counts the fenced sessions for the metrics, and updates whether the lease must
// be kept durable.
func (k *Keeper) countFenced(ctx context.Context) error {
	now := k.Clock().Boot
	if k.countedAt != 0 && now-k.countedAt < k.scaled(countInterval) {
		return nil
	}
	var all v1alpha1.SessionAssignmentList
	if err := k.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing assignments: %w", err)
	}
	k.countedAt = now
	guarded, fenced := 0, false
	for i := range all.Items {
		a := &all.Items[i]
		fenced = fenced || a.Spec.FailoverMode == v1alpha1.FailoverFence
		if affected(a) {
			guarded++
		}
	}
	metricGuarded.Set(float64(guarded))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = k.wanted && fenced
	return nil
}

// announce logs a change of state and enqueues the fenced sessions.
func (k *Keeper) announce(ctx context.Context) {
	k.mu.Lock()
	now, wanted := k.status(), k.wanted
	k.mu.Unlock()
	metricRemaining.Set(now.Left.Seconds())
	if now.State == k.announced {
		return
	}
	log.FromContext(ctx).Info("The hub's lease changed its state", "from", k.announced.String(), "to", now.State.String(), "fenced", wanted)
	k.announced = now.State
	k.Changed()
}

// Changed enqueues all fenced sessions.
func (k *Keeper) Changed() {
	select {
	case k.changes <- event.GenericEvent{Object: &v1alpha1.SessionAssignment{}}:
	default: // An event is pending.
	}
}

// logOnce logs the first failure in a row.
func (k *Keeper) logOnce(ctx context.Context, err error) {
	switch {
	case err == nil, ctx.Err() != nil:
	case !k.failed:
		log.FromContext(ctx).Error(err, "updating the lease, will retry")
	default:
		log.FromContext(ctx).V(1).Info("updating the lease still fails", "reason", err.Error())
	}
	k.failed = err != nil
}

func (k *Keeper) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * k.timeFactor)
}
