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
	// leaseDuration is how long the other replicas wait for a leader that does not renew
	// the lock while they reach the API server, before the time factor. It is part of
	// S in docs/design.md, section 7.
	leaseDuration = 15 * time.Second
	// minLeaseDuration is its minimum, since the latency of a busy API server is not scaled by
	// the time factor.
	minLeaseDuration = 4 * time.Second
)

// errLost ends an agent that does not lead any more.
var errLost = errors.New("another replica leads")

// leaseDuration returns whole seconds, the unit of a Lease.
func (o *Options) leaseDuration() time.Duration {
	scaled := time.Duration(float64(leaseDuration) * o.TimeFactor)
	return (max(scaled, minLeaseDuration) + time.Second - 1).Truncate(time.Second)
}

// retryPeriod returns how often the lock is renewed, or read by the others: 2 s of 15.
func (o *Options) retryPeriod() time.Duration { return o.leaseDuration() * 2 / 15 }

// newLeadership returns the leadership of this replica and its lock, nil without leader election. It
// wraps the configuration so that it writes, the lock apart, only while this replica
// certainly leads. It calls lost when another replica leads.
//
// A leader that can't renew its lock goes on: without the member's API server desktops
// run, and need the link and the lease. It detects another leader from the API server
// before it writes anything there, or from the hub: see link.Client.
func newLeadership(cfg *rest.Config, o Options, scheme *runtime.Scheme, lost func(error)) (*election.Leadership, resourcelock.Interface, error) {
	if !o.LeaderElect {
		return election.Always(), nil, nil
	}
	holder, err := election.Holder(cfg, os.Getenv("POD_NAME"))
	if err != nil {
		return nil, nil, err
	}
	lock, err := election.NewLock(cfg, election.LockOptions{
		Namespace: o.Namespace, Name: leaderElectionID, Holder: holder,
		RenewDeadline: o.leaseDuration() * 2 / 3, Scheme: scheme,
	})
	if err != nil {
		return nil, nil, err
	}
	leadership := election.New()
	leadership.Wrap(cfg)
	return leadership, leadership.Incumbent(lock, election.IncumbentOptions{
		Duration: o.leaseDuration(),
		Lost:     func(holder string) { lost(fmt.Errorf("%w: %s", errLost, holder)) },
	}), nil
}
