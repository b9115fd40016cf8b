package hub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session"
	"github.com/vdi-fleet/vdi-fleet/proto/conflict"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

const (
	// termLease is the Lease that stores by how much terms are raised, in its leaseTransitions,
	// and when the last restore of the hub was detected, in its renewTime. Its holder is the
	// process that raises terms, the leader; the leader's lock is another Lease.
	termLease = "vdi-hub-term"
	// annotationRestored, on termLease, is the hub's term after its last detected restore.
	annotationRestored = "vdi.kasm.io/restored-term"
)

var termRaised = metrics.NewCounter("vdi_hub_term_raised_total",
	"How often the hub raised its term, since an agent had seen a higher one: its etcd was restored from a backup.")

// errTermTaken ends a leader if another replica raises the term, or if the term was
// restored to a lower one.
var errTermTaken = errors.New("the Lease " + termLease + " is not this leader's any more")

// hubTerm is the term of the leading replica: the number of transitions of the leader's lock,
// plus one, plus the stored offset by which terms were raised. It grows with every leader,
// unless the hub's etcd is restored from a backup: the lock then lacks the leaders since the
// backup. The term is raised above those that agents have seen, since they refuse lower ones.
//
// It also grows while a leader gives orders (see advance), so that agents have seen a later
// term than that of a backup even if the leader has not changed since.
type hubTerm struct {
	// live must not be a cache.
	live     client.Reader
	client   client.Client
	recorder events.EventRecorder
	options  Options
	// restored is called when the term is raised, and by begin if that was less than
	// Timings.Recovery ago.
	restored func()
	now      func() time.Time

	// holder identifies this process in the Lease.
	holder string
	// first is the term that this leader began with.
	first, current atomic.Int64
	// last is the hub's last restore.
	last atomic.Pointer[session.Restore]
	// raising is held while the Lease is changed, and protects offset: by how much terms are
	// raised, as this process last wrote it.
	raising sync.Mutex
	offset  int64
	// orders has an item if orders were sent since the term last grew. lost receives the
	// error that ended this leader's right to raise terms.
	orders chan struct{}
	lost   chan error
}

func newHubTerm(o Options, live client.Reader, c client.Client, recorder events.EventRecorder, restored func()) *hubTerm {
	return &hubTerm{
		live: live, client: c, recorder: recorder, options: o, restored: restored,
		now: time.Now, orders: make(chan struct{}, 1), lost: make(chan error, 1),
	}
}

// begin reads the term of a replica that has begun to lead, and acquires the Lease, so that
// an earlier leader can't raise terms any more.
func (t *hubTerm) begin(ctx context.Context) error {
	transitions := int32(0)
	if t.options.LeaderElect {
		lock := &coordinationv1.Lease{}
		if err := t.live.Get(ctx, t.key(t.options.LeaderElectionID), lock); err != nil {
			return fmt.Errorf("reading the leader's term: %w", err)
		}
		transitions = ptr.Deref(lock.Spec.LeaseTransitions, 0)
	}
	lease, err := t.acquire(ctx)
	if err != nil {
		return err
	}
	t.offset = offsetOf(lease)
	t.first.Store(int64(transitions) + 1 + t.offset)
	t.current.Store(t.first.Load())
	t.last.Store(restoreOf(lease))
	// An earlier leader may have ended before all members had reported. If its clock
	// differs, the wait is longer or shorter, which is harmless.
	if at := lease.Spec.RenewTime; at != nil && t.now().Sub(at.Time).Abs() < t.options.timings().Recovery {
		t.restored()
	}
	return nil
}

// acquire makes this process the Lease's holder.
func (t *hubTerm) acquire(ctx context.Context) (*coordinationv1.Lease, error) {
	t.holder = string(uuid.NewUUID())
	var lease *coordinationv1.Lease
	// An earlier leader's last write may still arrive.
	err := conflict.Retry(retry.DefaultRetry, func() (err error) {
		if lease, err = t.read(ctx); err != nil {
			return err
		}
		lease.Spec.HolderIdentity = &t.holder
		lease.Spec.AcquireTime = &metav1.MicroTime{Time: t.now()}
		return t.write(ctx, lease)
	})
	if err != nil {
		return nil, fmt.Errorf("acquiring the Lease of the hub's term: %w", err)
	}
	return lease, nil
}

// Last returns the hub's last restore (session.Restores).
func (t *hubTerm) Last() session.Restore {
	return ptr.Deref(t.last.Load(), session.Restore{})
}

// Detected raises the term, once for each leader, since a member's report shows that the hub
// was restored (session.Restores).
func (t *hubTerm) Detected(ctx context.Context) error {
	if t.Last().Term > t.first.Load() {
		return nil
	}
	return t.raise(ctx, t.current.Load())
}

// raise sets the term above one that an agent has seen before the restore, and stores the
// time of the restore. The term is stored before it is sent to an agent.
func (t *hubTerm) raise(ctx context.Context, seen int64) error {
	t.raising.Lock()
	defer t.raising.Unlock()
	was := t.current.Load()
	if seen < was && t.Last().Term > t.first.Load() {
		return nil // already raised after another agent's report
	}
	seen = max(seen, was)
	t.restored() // nothing is placed from now on, while this is stored
	lease, err := t.addOffset(ctx, seen+1-was, func(lease *coordinationv1.Lease) {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: t.now()}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationRestored, strconv.FormatInt(seen+1, 10))
	})
	if err != nil {
		return fmt.Errorf("raising the hub's term from %d above %d: %w", was, seen, err)
	}
	t.last.Store(restoreOf(lease))
	t.current.Store(seen + 1)
	termRaised.Inc()
	ctrl.Log.Info("The hub's term was raised: an agent had seen a later one, as after a restore from a backup",
		"term", seen+1, "before", was, "seen", seen)
	t.recorder.Eventf(lease, nil, "Warning", v1alpha1.EventTermRaised, "Raise",
		"an agent had seen a hub of term %d, and this one had %d: the hub was restored from a backup, and has term %d now", seen, was, seen+1)
	return nil
}

// addOffset stores a higher offset of terms. The caller holds the lock.
func (t *hubTerm) addOffset(ctx context.Context, by int64, change func(*coordinationv1.Lease)) (*coordinationv1.Lease, error) {
	lease, err := t.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.holds(lease); err != nil {
		select {
		case t.lost <- err:
		default:
		}
		return nil, err
	}
	if offset := offsetOf(lease); offset+by > math.MaxInt32 {
		return nil, fmt.Errorf("it has been raised too far already, by %d", offset)
	}
	lease.Spec.LeaseTransitions = ptr.To(int32(offsetOf(lease) + by))
	change(lease)
	if err := t.write(ctx, lease); err != nil {
		return nil, err
	}
	t.offset = offsetOf(lease)
	return lease, nil
}

// holds returns an error if this leader may not change the Lease.
func (t *hubTerm) holds(lease *coordinationv1.Lease) error {
	switch offset := offsetOf(lease); {
	case ptr.Deref(lease.Spec.HolderIdentity, "") != t.holder:
		return fmt.Errorf("%w: another replica has taken it, or the hub's etcd was restored while this one ran", errTermTaken)
	case offset < t.offset:
		return fmt.Errorf("%w: it went back from %d to %d, as after a restore of the hub's etcd while this one ran", errTermTaken, t.offset, offset)
	}
	return nil
}

// read returns the Lease, or a new one if there is none.
func (t *hubTerm) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	key := t.key(termLease)
	err := t.live.Get(ctx, key, lease)
	if apierrors.IsNotFound(err) {
		lease.Namespace, lease.Name = key.Namespace, key.Name
		return lease, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Lease of the hub's term: %w", err)
	}
	return lease, nil
}

// write stores the Lease unless it was changed since it was read.
func (t *hubTerm) write(ctx context.Context, lease *coordinationv1.Lease) error {
	if lease.ResourceVersion == "" {
		return t.client.Create(ctx, lease)
	}
	return t.client.Update(ctx, lease)
}

func (t *hubTerm) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: t.options.Namespace, Name: name}
}

// offsetOf returns by how much terms are raised; a negative number counts as zero.
func offsetOf(lease *coordinationv1.Lease) int64 {
	return max(0, int64(ptr.Deref(lease.Spec.LeaseTransitions, 0)))
}

// restoreOf returns the restore that the Lease records, or nil.
func restoreOf(lease *coordinationv1.Lease) *session.Restore {
	term, err := strconv.ParseInt(lease.Annotations[annotationRestored], 10, 64)
	if err != nil || term < 1 || lease.Spec.RenewTime == nil {
		return nil
	}
	return &session.Restore{Term: term, Time: lease.Spec.RenewTime.Time}
}
