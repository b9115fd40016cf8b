package agent

import (
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/vdi-fleet/vdi-fleet/proto/election"
)

// leaderElectionID is the name of the lock among an agent's replicas.
const leaderElectionID = "vdi-agent"

const (
	// leaseDuration is how long the other replicas wait for a leader that does not
	// renew the lock while the API server answers them, before the time factor. It is
	// part of the S of docs/design.md, section 7.
	leaseDuration = 15 * time.Second
	// leastLease is its minimum, since the latency of a busy API server is not scaled by
	// the time factor.
	leastLease = 4 * time.Second
)

// errLost ends an agent that does not lead any more.
var errLost = errors.New("another replica leads")

// leaseDuration returns whole seconds, since a Lease knows no others.
func (o *Options) leaseDuration() time.Duration {
	scaled := time.Duration(float64(leaseDuration) * o.TimeFactor)
	return (max(scaled, leastLease) + time.Second - 1).Truncate(time.Second)
}

// retryPeriod returns how often the lock is renewed, or read by the others: 2 s of 15.
func (o *Options) retryPeriod() time.Duration { return o.leaseDuration() * 2 / 15 }

// leader is the leadership of a replica.
type leader struct {
	leadership *election.Leadership
	// lock is nil without leader election.
	lock resourcelock.Interface
}

// newLeader also makes the configuration one that writes only while this replica
// certainly leads, the lock apart. It calls lost when another one leads in its place.
//
// The leader of an agent keeps the lead while it can't renew its lock: with the member's
// API server away, desktops go on, and so must the link and the lease of fenced ones.
// That another replica has taken the lock it learns from the API server before it writes
// anything there, or, where it alone is cut off from it, from the hub: see link.Client.
func newLeader(cfg *rest.Config, o Options, scheme *runtime.Scheme, lost func(error)) (*leader, error) {
	if !o.LeaderElect {
		return &leader{leadership: election.Always()}, nil
	}
	holder, err := election.Holder(cfg, os.Getenv("POD_NAME"))
	if err != nil {
		return nil, err
	}
	lock, err := election.NewLock(cfg, election.LockOptions{
		Namespace: o.Namespace, Name: leaderElectionID, Holder: holder,
		RenewDeadline: o.leaseDuration() * 2 / 3, Scheme: scheme,
	})
	if err != nil {
		return nil, err
	}
	l := &leader{leadership: election.New()}
	l.lock = l.leadership.Incumbent(lock, election.IncumbentOptions{
		Duration: o.leaseDuration(),
		Lost:     func(holder string) { lost(fmt.Errorf("%w: %s", errLost, holder)) },
	})
	l.leadership.Wrap(cfg)
	return l, nil
}
