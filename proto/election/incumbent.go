package election

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Timings of an elector with an incumbent lock, which never stops by itself:
// IncumbentOptions.Lost ends the lead.
const (
	IncumbentRenewDeadline = 10 * 365 * 24 * time.Hour
	IncumbentLeaseDuration = IncumbentRenewDeadline + time.Hour
)

// IncumbentOptions are the options of an incumbent lock.
type IncumbentOptions struct {
	// Duration is the lease duration in whole seconds, which is stored in the record.
	Duration time.Duration
	// Lost is called once, when another replica has acquired the lock. The program must
	// exit.
	Lost func(holder string)
}

// Incumbent returns a lock whose holder keeps the lead while the API server is unreachable.
//
// Meanwhile no replica can acquire the lock, so its holder continues, without being certain
// (Leadership.Leading): it writes nothing until it has renewed the lock, and exits if another
// has acquired it. After an outage the other replicas wait for the whole duration, so that
// they replace only a dead leader.
//
// A leader that alone can't reach the API server is replaced, and can't read that. Its clients
// must detect it.
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
	// read is when the lock was last read, if ever; failing is set if reads have failed
	// since, and outages counts the long failures.
	read    time.Duration
	failing bool
	outages int
}

// Get reads the lock. The raw record that it returns changes with each outage, so that the
// elector waits for the whole duration again.
func (l *incumbentLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil {
		l.failing = true
		return record, raw, err
	}
	now := l.leadership.now().Boot
	// A single failed request is not an outage, or intermittent failures would keep the lock
	// with a dead leader. After half the duration the leader has the other half to renew.
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

// Create creates the lock.
func (l *incumbentLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.record(ctx, record, l.Interface.Create(ctx, l.withDuration(record)))
}

// Update acquires, renews or releases the lock.
func (l *incumbentLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.record(ctx, record, l.Interface.Update(ctx, l.withDuration(record)))
}

// withDuration returns the record with the lease duration.
func (l *incumbentLock) withDuration(record resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
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
			logger.Info("The lock is renewed again, and no other replica has acquired it meanwhile")
		}
		l.logged = false
	case l.holds && !l.logged && !l.leadership.Leading():
		l.logged = true
		logger.Error(err, "The lock can't be renewed: this replica continues as the leader, and writes nothing until it is renewed")
	}
	return err
}
