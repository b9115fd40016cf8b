package hub

import (
	"cmp"
	"fmt"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/hub/leadership"
	"github.com/vdi-fleet/vdi-fleet/proto/election"
)

// Timings of the leader's lock and of its end, before the time factor.
const (
	// leaseDuration is how long the others wait for a leader that does not renew.
	leaseDuration = 15 * time.Second
	// renewDeadline is how long a leader tries to renew before it stops.
	renewDeadline = 10 * time.Second
	// retryPeriod is how often the lock is renewed, or checked by the others.
	retryPeriod = time.Second
	// roleResync is how often the leader's label is checked.
	roleResync = 30 * time.Second
	// drainTimeout is how long agents have to disconnect from a hub that shuts down.
	drainTimeout = 10 * time.Second
)

// Minimums of leaseDuration and renewDeadline: a time factor does not scale the latency of a
// busy API server, and a leader would lose its lock without a fault.
const (
	minLease    = 6 * time.Second
	minDeadline = 4 * time.Second
)

// leaseDuration returns whole seconds, as a Lease requires: the elector would truncate it,
// and another replica would take over before this one stops.
func (o *Options) leaseDuration() time.Duration {
	seconds := (max(o.scaled(leaseDuration), minLease) + time.Second - 1) / time.Second
	return seconds * time.Second
}

func (o *Options) renewDeadline() time.Duration {
	return max(o.scaled(renewDeadline), minDeadline)
}

// leader holds a replica's leadership: its lock, and the label of its Pod.
type leader struct {
	leadership *election.Leadership
	// lock is nil without leader election.
	lock resourcelock.Interface
	// pods is nil if this replica has no Pod.
	pods corev1client.PodInterface
	// serving is closed once this replica listens for agents.
	serving chan struct{}
}

// newLeader returns this replica's leadership. It restricts the configuration to write only
// while this replica leads, except for the lock and the label of its Pod.
func newLeader(cfg *rest.Config, o Options) (*leader, error) {
	holder, err := election.Holder(cfg, o.PodName)
	if err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(cfg)
	l := &leader{leadership: election.Always(), serving: make(chan struct{})}
	if o.LeaderElect {
		lock, err := election.NewLock(plain, election.LockOptions{
			Namespace: o.Namespace, Name: o.LeaderElectionID, Holder: holder,
			RenewDeadline: o.renewDeadline(), Scheme: Scheme(),
		})
		if err != nil {
			return nil, err
		}
		l.leadership = election.New()
		l.lock = l.leadership.Lock(lock)
		l.leadership.Wrap(cfg)
	}
	if o.PodName != "" {
		plain.UserAgent += "/hub-role"
		core, err := corev1client.NewForConfig(plain)
		if err != nil {
			return nil, fmt.Errorf("creating the client of Pods: %w", err)
		}
		l.pods = core.Pods(cmp.Or(o.PodNamespace, o.Namespace))
	}
	return l, nil
}

// addRole adds the controller of the leader's label, if this replica has a Pod.
func (l *leader) addRole(mgr manager.Manager, o Options) error {
	if l.pods == nil {
		return nil
	}
	err := mgr.Add(&leadership.Role{
		Pods: l.pods, Pod: o.PodName, Leadership: l.leadership, Elected: mgr.Elected(), Serving: l.serving,
		Retry: o.scaled(time.Second), Resync: o.scaled(roleResync),
	})
	if err != nil {
		return fmt.Errorf("adding the leader's label: %w", err)
	}
	return nil
}
