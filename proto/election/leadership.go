package election

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// marginShare is the part of the lock's duration, one fifth, that a leader does not use:
// see Leadership.
const marginShare = 5

// Leadership reports whether this replica certainly leads.
//
// It depends on when the last successful renewal of the lock was sent, by this machine's clock.
// Another replica acquires the lock when it has not observed a change for the lock's
// duration, by its own clock, since it read the last renewal, which was after this replica sent
// it. So no other replica leads for a whole duration since then. The margin (3 s of 15 s) is for requests that are checked now
// and arrive later, and for clocks that run at different rates; with it a leader ceases to be
// certain just when the elector, which has its own deadline, stops.
//
// A wall clock that is set forward by more than wallSkew ends the certainty until the next
// renewal, as a pause of the machine does: see boottime.Instant.
//
// The remaining cases are a machine whose wall clock is not correct yet after a pause,
// and a process that is stopped in the microseconds between the check and the write to
// its socket. An update carries a resourceVersion that the next leader's write has made
// obsolete, and agents refuse a lower term than they have seen.
type Leadership struct {
	now func() boottime.Instant
	// term is how long this replica leads; nil: it does not.
	term atomic.Pointer[term]
	// always is set if no leader is elected.
	always bool
}

// wallSkew is the most by which the wall clock may be set without ending a term.
const wallSkew = time.Second

// term is the time for which the last renewal of the lock is valid.
type term struct {
	sent   boottime.Instant
	length time.Duration
}

// New returns the Leadership of a replica that does not lead yet.
func New() *Leadership { return &Leadership{now: boottime.Read} }

// Always returns the Leadership of a program with one replica and no election.
func Always() *Leadership { return &Leadership{now: boottime.Read, always: true} }

// Leading reports whether no other replica can be leading.
func (l *Leadership) Leading() bool {
	if l.always {
		return true
	}
	t := l.term.Load()
	return t != nil && l.now().Since(t.sent, wallSkew) < t.length
}

func (l *Leadership) held(sent boottime.Instant, duration time.Duration) {
	l.term.Store(&term{sent: sent, length: duration - duration/marginShare})
}

func (l *Leadership) lost() { l.term.Store(nil) }

// Lock returns a lock that updates the Leadership.
func (l *Leadership) Lock(inner resourcelock.Interface) resourcelock.Interface {
	return &watchedLock{Interface: inner, leadership: l}
}

// watchedLock updates the Leadership with each request of the elector, its only caller,
// which calls one method at a time.
type watchedLock struct {
	resourcelock.Interface
	leadership *Leadership
	// heldByOther is set if the lock had another holder when it was last read.
	heldByOther bool
}

// Get reads the lock, and ends the Leadership if it has another holder.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.heldByOther = record.HolderIdentity != l.Identity()
		if l.heldByOther {
			l.leadership.lost()
		}
	}
	return record, raw, err
}

// Create creates the lock.
func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update acquires, renews or releases the lock.
func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *watchedLock) write(record resourcelock.LeaderElectionRecord, write func() error) error {
	if record.HolderIdentity != l.Identity() {
		// Another replica may lead as soon as it is released.
		l.leadership.lost()
		if l.heldByOther {
			// An elector that resumes after its deadline releases the lock although it has
			// just read the record of another holder: that would end the other's lead.
			return ErrNotLeading
		}
		return write()
	}
	sent := l.leadership.now()
	if err := write(); err != nil {
		// A request without a response may not have been stored, so it does not extend
		// the term.
		return err
	}
	// The other replicas use the duration in the record, in whole seconds.
	l.leadership.held(sent, time.Duration(record.LeaseDurationSeconds)*time.Second)
	return nil
}
