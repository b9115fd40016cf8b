package election

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// marginShare is the part of the lock's duration, one fifth, that a leader
// leaves unused: see Guard.
const marginShare = 5

// Guard knows whether this replica leads for certain.
//
// It goes by when the last successful renewal of the lock was sent, by this
// machine's clock. Another replica takes the lock over when it has not seen it
// change for the lock's duration, by its own clock, and counts from when it saw
// the last renewal: later than the API server stored it, which is later than we
// sent it. So from the moment of sending nobody else leads for a whole duration.
// The margin (3 s of 15 s) is for what is checked now and arrives later, and for
// clocks that run at unlike rates; with it a leader ceases to be certain just
// when the elector, which has its own deadline, gives up.
//
// A machine that is paused by its hypervisor stops its boot clock too: as much time
// has passed as the boot clock or the wall's clock says, the latter less wallSkew. A
// wall's clock that is set forward by more ends the certainty until the next renewal.
//
// What is left is a machine whose wall's clock is not right yet after a pause, and a
// process that is stopped between the check and the write to its socket, a matter of
// microseconds. An update carries a resourceVersion that the next leader's write has
// made old, and agents refuse a lower term than they have seen.
type Guard struct {
	now func() moment
	// term is how long we lead; nil: we do not.
	term atomic.Pointer[term]
	// always is set where no leader is elected.
	always bool
}

// wallSkew is by how much the wall's clock may be set without ending a term.
const wallSkew = time.Second

// moment is one on both clocks of a machine.
type moment struct {
	boot time.Duration
	wall time.Time
}

// thisMoment reads the wall's clock without the monotonic one that Go would go by.
func thisMoment() moment { return moment{boot: boottime.Now(), wall: time.Now().Round(0)} }

// term is what the last renewal of the lock is worth.
type term struct {
	sent   moment
	length time.Duration
}

// on reports whether it is not over.
func (t *term) on(now moment) bool {
	return max(now.boot-t.sent.boot, now.wall.Sub(t.sent.wall)-wallSkew) < t.length
}

// NewGuard makes the guard of a replica that does not lead yet.
func NewGuard() *Guard { return &Guard{now: thisMoment} }

// Always is the guard of a program that has no second replica and elects nobody.
func Always() *Guard { return &Guard{now: thisMoment, always: true} }

// Leading is whether no other replica can be leading.
func (g *Guard) Leading() bool {
	if g.always {
		return true
	}
	t := g.term.Load()
	return t != nil && t.on(g.now())
}

func (g *Guard) held(sent moment, duration time.Duration) {
	g.term.Store(&term{sent: sent, length: duration - duration/marginShare})
}

func (g *Guard) lost() { g.term.Store(nil) }

// Lock returns the lock with the guard looking on.
func (g *Guard) Lock(inner resourcelock.Interface) resourcelock.Interface {
	return &watchedLock{Interface: inner, guard: g}
}

// watchedLock tells the guard how the elector fares. The elector is its only
// caller, and calls one method at a time.
type watchedLock struct {
	resourcelock.Interface
	guard *Guard
	// taken is whether the lock was not ours when it was read last.
	taken bool
}

// Get sees another holder as soon as the elector does.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.taken = record.HolderIdentity != l.Identity()
		if l.taken {
			l.guard.lost()
		}
	}
	return record, raw, err
}

// Create takes a lock that nobody has had.
func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update takes, keeps or lets go of the lock.
func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *watchedLock) write(record resourcelock.LeaderElectionRecord, write func() error) error {
	if record.HolderIdentity != l.Identity() {
		// Whoever sees it gone may lead at once.
		l.guard.lost()
		if l.taken {
			// An elector that wakes after its deadline gives up by what it knew
			// before it slept, though it has just read the lock: with the version of
			// the other's record, whom it would put out while he leads.
			return ErrNotLeading
		}
		return write()
	}
	sent := l.guard.now()
	if err := write(); err != nil {
		// What is not answered may not have been stored: nothing is gained by it.
		return err
	}
	// The record is what the others go by, and it knows whole seconds only.
	l.guard.held(sent, time.Duration(record.LeaseDurationSeconds)*time.Second)
	return nil
}
