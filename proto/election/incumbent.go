package election

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Timings of an elector with an incumbent lock. It never stops by itself:
// IncumbentOptions.Lost ends the lead.
const (
	IncumbentRenewDeadline = 10 * 365 * 24 * time.Hour
	IncumbentLeaseDuration = IncumbentRenewDeadline + time.Hour
)

// IncumbentOptions are the options of an incumbent lock.
type IncumbentOptions struct {
	// Duration is for how long a lock that is not renewed stays its holder's, in whole
	// seconds. It is stored in the record, by which the others count.
	Duration time.Duration
	// Lost is called once, when another replica has taken this replica's lock. The
	// program must end.
	Lost func(holder string)
}

// Incumbent returns a lock whose holder keeps the lead while the API server is unreachable.
//
// Meanwhile no replica can take the lock, so its holder continues, without being certain
// (Leadership.Leading): it writes nothing until it has renewed the lock, and ends if
// another has taken it. It renews before others can take over when the API server is
// reachable again: another replica counts the duration again after an outage, so that it
// replaces a leader that is dead and not one that could not renew.
//
// A leader that alone is cut off from the API server is replaced nevertheless, and can't
// read that. Its clients must report it.
func (l *Leadership) Incumbent(inner resourcelock.Interface, o IncumbentOptions) resourcelock.Interface {
	return &incumbentLock{Interface: l.Lock(inner), leadership: l, options: o}
}

// incumbentLock has the elector as its only caller, which calls one method at a time.
type incumbentLock struct {
	resourcelock.Interface
	leadership *Leadership
	options    IncumbentOptions
	// holds is set if this replica held the lock when it was last read or written.
	holds bool
	// logged is set if the failure to renew the lock was logged.
	logged bool
	// read is when the lock was last read, 0: never; failing is set if reads have failed
	// since, and outages counts the long failures.
	read    time.Duration
	failing bool
	outages int
}

// Get reads the lock. The raw record that it returns changes with each outage, so that
// the elector counts the duration again.
func (l *incumbentLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		l.failing = true
		return record, raw, err
	}
	now := l.leadership.now().boot
	// One failed request is not an outage, or else a server that refuses some would keep
	// the lock with a dead leader. Half the duration leaves the leader the other half.
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

// Create takes a lock that does not exist yet.
func (l *incumbentLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.record(ctx, record, l.Interface.Create(ctx, l.lasting(record)))
}

// Update takes, keeps or releases the lock.
func (l *incumbentLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.record(ctx, record, l.Interface.Update(ctx, l.lasting(record)))
}

// lasting returns the record with the duration by which the others count.
func (l *incumbentLock) lasting(record resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
	if record.HolderIdentity == l.Identity() {
		record.LeaseDurationSeconds = int(l.options.Duration / time.Second)
	}
	return record
}

func (l *incumbentLock) record(ctx context.Context, record resourcelock.LeaderElectionRecord, err error) error {
	logger := log.FromContext(ctx).WithName("election").WithValues("lock", l.Describe())
	switch {
	case err == nil:
		l.holds = record.HolderIdentity == l.Identity()
		if l.logged {
			logger.Info("The lock is renewed again: no other replica has taken it meanwhile")
		}
		l.logged = false
	case l.holds && !l.logged && !l.leadership.Leading():
		l.logged = true
		logger.Error(err, "The lock can't be renewed: this replica goes on as the leader, and writes nothing until it is renewed")
	}
	return err
}
