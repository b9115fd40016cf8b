package hub

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// termLease is the Lease that says by how much terms are raised, in its
// leaseTransitions, and when that was last done, in its renewTime. Nobody holds
// it; it is one because the hub may write Leases anyway.
const termLease = "vdi-hub-term"

var termRaised = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "vdi_hub_term_raised_total",
	Help: "How often the hub raised its term, since an agent had seen a higher one: its etcd was restored from a backup.",
})

func init() { metrics.Registry.MustRegister(termRaised) }

// hubTerm is the term of the replica that leads: how often the leader's lock has
// changed hands, plus one, plus what terms were raised by since. It grows with
// every leader and outlives them all, but for a hub whose etcd is restored from a
// backup: its lock knows nothing of the leaders since then, which the agents have
// seen. It is raised above theirs, for they would never listen to it.
type hubTerm struct {
	// live must not be a cache.
	live     client.Reader
	client   client.Client
	recorder events.EventRecorder
	options  Options
	// restored is called when the term was raised, for this leader or a little
	// while before it.
	restored func()
	// recovery is that while.
	recovery time.Duration
	now      func() time.Time

	current atomic.Int64
	// raising is held while the term is raised.
	raising sync.Mutex
}

// begin reads the term of a replica that has begun to lead. It does not change
// while that one leads, unless it is raised.
func (t *hubTerm) begin(ctx context.Context) error {
	transitions := int32(0)
	if t.options.LeaderElect {
		lock := &coordinationv1.Lease{}
		if err := t.live.Get(ctx, t.key(t.options.LeaderElectionID), lock); err != nil {
			return fmt.Errorf("reading the leader's term: %w", err)
		}
		transitions = ptr.Deref(lock.Spec.LeaseTransitions, 0)
	}
	raised, err := t.read(ctx)
	if err != nil {
		return err
	}
	t.current.Store(int64(transitions) + 1 + offsetOf(raised))
	// An earlier leader may have ended before all members had reported. Its clock
	// may differ from ours: then the wait is longer or shorter, and no harm is done.
	if at := raised.Spec.RenewTime; at != nil && t.now().Sub(at.Time).Abs() < t.recovery {
		t.restored()
	}
	return nil
}

func (t *hubTerm) get() int64 { return t.current.Load() }

// raise makes the term higher than one that an agent has seen. It is stored
// before anybody is told.
func (t *hubTerm) raise(ctx context.Context, seen int64) error {
	t.raising.Lock()
	defer t.raising.Unlock()
	was := t.get()
	if seen < was {
		return nil // another agent had seen as much
	}
	lease, err := t.read(ctx)
	if err != nil {
		return err
	}
	offset := offsetOf(lease) + seen + 1 - was
	if offset > math.MaxInt32 {
		return fmt.Errorf("raising the hub's term from %d above %d: it has been raised too far already", was, seen)
	}
	lease.Spec.LeaseTransitions = ptr.To(int32(offset))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: t.now()}
	if err := t.write(ctx, lease); err != nil {
		return fmt.Errorf("raising the hub's term from %d above %d: %w", was, seen, err)
	}
	t.restored()
	t.current.Store(seen + 1)
	termRaised.Inc()
	ctrl.Log.Info("The hub's term was raised: an agent had seen a later one, as after a restore from a backup",
		"term", seen+1, "before", was, "seen", seen)
	t.recorder.Eventf(lease, nil, "Warning", v1alpha1.EventTermRaised, "Raise",
		"an agent had seen a hub of term %d, and this one had %d: the hub was restored from a backup, and has term %d now", seen, was, seen+1)
	return nil
}

// read returns the Lease, a new one if there is none.
func (t *hubTerm) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := t.live.Get(ctx, t.key(termLease), lease)
	if apierrors.IsNotFound(err) {
		key := t.key(termLease)
		lease.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
		return lease, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading by how much terms were raised: %w", err)
	}
	return lease, nil
}

// write stores the Lease if nobody has since it was read.
func (t *hubTerm) write(ctx context.Context, lease *coordinationv1.Lease) error {
	if lease.ResourceVersion == "" {
		return t.client.Create(ctx, lease)
	}
	return t.client.Update(ctx, lease)
}

func (t *hubTerm) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: t.options.Namespace, Name: name}
}

// offsetOf is what terms are raised by; somebody's less than nothing counts as
// nothing.
func offsetOf(lease *coordinationv1.Lease) int64 {
	return max(0, int64(ptr.Deref(lease.Spec.LeaseTransitions, 0)))
}
