package hub

import (
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
	// leaseDuration is how long the others wait for a leader that is silent.
	leaseDuration = 15 * time.Second
	// renewDeadline is how long a leader tries to renew before it gives up.
	renewDeadline = 10 * time.Second
	// retryPeriod is how often the lock is renewed, or looked at by the others.
	retryPeriod = 2 * time.Second
	// roleResync is how often the leader's label is looked at.
	roleResync = 30 * time.Second
	// drainTimeout is how long agents get to leave a hub that is asked to end.
	drainTimeout = 10 * time.Second
)

// leastLease and leastDeadline are what a time factor leaves of the two, since
// the latency of a busy API server is not scaled with it: a leader would lose
// its lock although nothing is wrong.
const (
	leastLease    = 6 * time.Second
	leastDeadline = 4 * time.Second
)

// leaseDuration is whole seconds, since a Lease knows no others: the elector
// would cut off what is beyond, and the others would take over before this
// replica gives up.
func (o *Options) leaseDuration() time.Duration {
	seconds := (max(o.scaled(leaseDuration), leastLease) + time.Second - 1) / time.Second
	return seconds * time.Second
}

func (o *Options) renewDeadline() time.Duration {
	return max(o.scaled(renewDeadline), leastDeadline)
}

// leader is what a replica has of leadership: whether it has it, and who is
// told.
type leader struct {
	guard *election.Guard
	// lock is nil where nobody is elected.
	lock resourcelock.Interface
	// pods is nil where this replica has no Pod.
	pods corev1client.PodInterface
	// serving is closed once agents are listened for.
	serving chan struct{}
}

// newLeader also makes the configuration one that writes only while this
// replica leads, the lock and the own Pod's label apart.
func newLeader(cfg *rest.Config, o Options) (*leader, error) {
	holder, err := election.Holder(cfg, o.PodName)
	if err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(cfg)
	l := &leader{guard: election.Always(), serving: make(chan struct{})}
	if o.LeaderElect {
		lock, err := election.NewLock(plain, election.LockOptions{
			Namespace: o.Namespace, Name: o.LeaderElectionID, Holder: holder,
			RenewDeadline: o.renewDeadline(), Scheme: Scheme(),
		})
		if err != nil {
			return nil, err
		}
		l.guard = election.NewGuard()
		l.lock = l.guard.Lock(lock)
		l.guard.Wrap(cfg)
	}
	if o.PodName != "" {
		plain.UserAgent += "/hub-role"
		core, err := corev1client.NewForConfig(plain)
		if err != nil {
			return nil, fmt.Errorf("making the client of Pods: %w", err)
		}
		namespace := o.PodNamespace
		if namespace == "" {
			namespace = o.Namespace
		}
		l.pods = core.Pods(namespace)
	}
	return l, nil
}

// addRole keeps the leader's label right, where there is a Pod to put it on.
func (l *leader) addRole(mgr manager.Manager, o Options) error {
	if l.pods == nil {
		return nil
	}
	err := mgr.Add(&leadership.Role{
		Pods: l.pods, Pod: o.PodName, Guard: l.guard, Elected: mgr.Elected(), Serving: l.serving,
		Retry: o.scaled(time.Second), Resync: o.scaled(roleResync),
	})
	if err != nil {
		return fmt.Errorf("adding the leader's label: %w", err)
	}
	return nil
}

// listens says that agents may come.
func (l *leader) listens() { close(l.serving) }
