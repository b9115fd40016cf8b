package election

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Timings of an elector with an incumbent lock. It never gives up by itself: who ends
// the lead is IncumbentOptions.Lost.
const (
	IncumbentRenewDeadline = 10 * 365 * 24 * time.Hour
	IncumbentLeaseDuration = IncumbentRenewDeadline + time.Hour
)

// IncumbentOptions are those of an incumbent lock.
type IncumbentOptions struct {
	// Duration is for how long a lock that is not renewed stays its holder's, in whole
	// seconds. It goes into the record, by which the others count.
	Duration time.Duration
	// Lost is called once, when the lock that was this replica's is another's. The
	// program must end: it leads no more.
	Lost func(holder string)
}

// Incumbent returns a lock whose holder keeps the lead while the API server is away.
//
// While it is away no replica can take the lock, so the one that has it goes on, without
// being certain (Guard.Leading): it writes nothing until it has renewed the lock, and
// ends if another has taken it meanwhile. For that it gets the first chance once the API
// server is back: another replica counts the duration again after an outage, so that it
// takes over from a leader that is dead and not from one that could not renew.
//
// A leader that alone is cut off from the API server is replaced there all the same, and
// does not learn it there. Whoever it serves must tell it.
func (g *Guard) Incumbent(inner resourcelock.Interface, o IncumbentOptions) resourcelock.Interface {
	return &incumbentLock{Interface: g.Lock(inner), guard: g, options: o}
}

// incumbentLock has the elector as its only caller, which calls one method at a time.
type incumbentLock struct {
	resourcelock.Interface
	guard   *Guard
	options IncumbentOptions
	// holds is whether the lock was ours when it was last read or written.
	holds bool
	// doubted: that the lock can't be renewed was logged.
	doubted bool
	// read is when the lock was last read, 0: never; failing: not since; and outages
	// how often it was not for long.
	read    time.Duration
	failing bool
	outages int
}

// Get reads the lock. What it returns as the raw record changes with each outage, by
// which the elector counts the duration again.
func (l *incumbentLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		l.failing = true
		return record, raw, err
	}
	now := l.guard.now().boot
	// One request that fails is no outage, or a server that refuses some would keep
	// the lock a dead leader's. Half the duration leaves the leader the other half.
	if l.failing && now-l.read > l.options.Duration/2 {
		l.outages++
	}
	l.read, l.failing = now, false
	if holder := record.HolderIdentity; l.holds && holder != "" && holder != l.Identity() {
		l.holds = false
		l.options.Lost(holder)
	}
	return record, fmt.Appendf(slices.Clip(raw), " outages:%d", l.outages), nil
}

// Create takes a lock that nobody has had.
func (l *incumbentLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.note(ctx, record, l.Interface.Create(ctx, l.lasting(record)))
}

// Update takes, keeps or releases the lock.
func (l *incumbentLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.note(ctx, record, l.Interface.Update(ctx, l.lasting(record)))
}

// lasting is a record that the others count the duration by.
func (l *incumbentLock) lasting(record resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
	if record.HolderIdentity == l.Identity() {
		record.LeaseDurationSeconds = int(l.options.Duration / time.Second)
	}
	return record
}

func (l *incumbentLock) note(ctx context.Context, record resourcelock.LeaderElectionRecord, err error) error {
	logger := log.FromContext(ctx).WithName("election").WithValues("lock", l.Describe())
	switch {
	case err == nil:
		l.holds = record.HolderIdentity == l.Identity()
		if l.doubted {
			logger.Info("The lock is renewed again: no other replica has taken it meanwhile")
		}
		l.doubted = false
	case l.holds && !l.doubted && !l.guard.Leading():
		l.doubted = true
		logger.Error(err, "The lock can't be renewed: this replica goes on as the leader, and writes nothing until it is renewed")
	}
	return err
}
