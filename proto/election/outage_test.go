package election

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// server is an API server's Lease, which refuses to update any version but the last.
type server struct {
	mu      sync.Mutex
	record  resourcelock.LeaderElectionRecord
	version int
}

// replica is an elector with an incumbent lock whose way to the API server can be cut.
type replica struct {
	name    string
	server  *server
	version int // that was last read or written
	cut     atomic.Bool
	reads   chan struct{} // one for each read that was answered
	renewed chan struct{} // the same of writes
	leads   chan struct{}
	lost    chan string
}

func (r *replica) Identity() string   { return r.name }
func (r *replica) Describe() string   { return "vdi-system/vdi-agent" }
func (r *replica) RecordEvent(string) {}

func (r *replica) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if r.cut.Load() {
		return nil, nil, errCut
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if r.server.version == 0 {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, r.name)
	}
	record := r.server.record
	raw, err := json.Marshal(record)
	r.version = r.server.version
	offer(r.reads)
	return &record, raw, err
}

func (r *replica) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.Update(ctx, record)
}

func (r *replica) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if r.cut.Load() {
		return errCut
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if r.version != r.server.version {
		return errors.New("conflict")
	}
	r.server.version++
	r.server.record, r.version = record, r.server.version
	offer(r.renewed)
	return nil
}

var errCut = errors.New("connection refused")

func offer(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// next waits for the next item.
func next(t *testing.T, from chan struct{}, what string) {
	t.Helper()
	select {
	case <-from:
	default:
	}
	select {
	case <-from:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
}

// waits waits until the replica has read the lock again, and checks that it does not lead.
func (r *replica) waits(t *testing.T) {
	t.Helper()
	select {
	case <-r.reads:
	default:
	}
	select {
	case <-r.reads:
	case <-r.leads:
		t.Fatalf("%s took over from a leader that only could not renew", r.name)
	}
}

// lockDuration is as short as possible on a busy machine.
const lockDuration = 2 * time.Second

func startReplica(t *testing.T, name string, of *server) *replica {
	t.Helper()
	r := &replica{
		name: name, server: of, reads: make(chan struct{}, 1), renewed: make(chan struct{}, 1),
		leads: make(chan struct{}), lost: make(chan string, 1),
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: New().Incumbent(r, IncumbentOptions{
			Duration: lockDuration, Lost: func(holder string) { r.lost <- holder },
		}),
		LeaseDuration: IncumbentLeaseDuration, RenewDeadline: IncumbentRenewDeadline, RetryPeriod: 50 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(r.leads) }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

// With real electors, which would otherwise acquire the lock after an outage.
func TestAnOutageLeavesTheLeadWhereItIsAndADeadLeaderLosesIt(t *testing.T) {
	lease := &server{}
	a := startReplica(t, "a", lease)
	<-a.leads
	b := startReplica(t, "b", lease)
	next(t, b.reads, "b reads the lock")

	a.cut.Store(true)
	b.cut.Store(true)
	<-time.After(2 * lockDuration) // the outage

	// The one that does not lead reaches the API server first.
	b.cut.Store(false)
	for range 5 {
		b.waits(t)
	}
	a.cut.Store(false)
	next(t, a.renewed, "a renews the lock")
	b.waits(t)

	// Cut off alone, a is replaced as a dead leader is, and finds out before it writes.
	a.cut.Store(true)
	select {
	case <-b.leads:
	case <-time.After(time.Minute):
		t.Fatal("no replica replaces a dead leader")
	}
	a.cut.Store(false)
	select {
	case holder := <-a.lost:
		if holder != "b" {
			t.Errorf("a lost the lock to %q", holder)
		}
	case <-time.After(time.Minute):
		t.Fatal("a does not detect that b leads")
	}
}
