package assignment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// workers store orders side by side; each waits for the API server mostly.
const workers = 8

// Teller passes on to the hub what becomes known. Its methods never block.
type Teller interface {
	// Add gives the result of an order, or a stop that nobody ordered.
	Add(*fleetv1.OrderResult)
	// Mark says that what the member holds of an assignment has changed.
	Mark(link.Ref)
}

// Counter knows what room there is, and from when on an assignment counts as
// used.
type Counter interface {
	// Refuses is why there is no room for an assignment that is about to be
	// stored; empty: there is, as far as is known.
	Refuses(*v1alpha1.SessionAssignment) string
	// Stored takes a stored assignment into account and returns the
	// sequence of the first capacity report that counts it.
	Stored(*v1alpha1.SessionAssignment) uint64
}

// Restrictions are what the member's administrator allows.
type Restrictions interface {
	// MayHoldSessions reports whether a namespace can be admitted at all.
	MayHoldSessions(namespace string) bool
	// Assignment returns why an assignment is not allowed; empty: it is.
	Assignment(*v1alpha1.SessionAssignmentSpec) []string
}

// Store is where orders become SessionAssignments. It is a manager.Runnable
// that needs leader election. Put may be called by any goroutine and never
// blocks.
type Store struct {
	// Client reads from the manager's cache, Live from the API server.
	Client  client.Client
	Live    client.Reader
	Cache   cache.Cache
	Teller  Teller
	Counter Counter
	// Restrictions of the member's administrator.
	Restrictions Restrictions
	// Trace of sessions' walks; nil: none.
	Trace *tracing.Tracer

	once   sync.Once
	mu     sync.Mutex
	slots  map[types.UID]*slot
	floors *floors
	queue  workqueue.TypedRateLimitingInterface[types.UID]
	synced chan struct{}

	ordered ordered
}

// init makes the store usable before Start, since orders may come first.
func (s *Store) init() {
	s.once.Do(func() {
		s.slots = map[types.UID]*slot{}
		s.floors = newFloors(maxFloors)
		s.synced = make(chan struct{})
		s.queue = workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, 30*time.Second))
	})
}

// NeedLeaderElection tells the manager to start this on the leader alone.
func (s *Store) NeedLeaderElection() bool { return true }

// Start watches the member's assignments and works off orders until the
// context ends.
func (s *Store) Start(ctx context.Context) error {
	s.init()
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("assignment"))
	stop, err := s.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { s.sweep(ctx) })
	for range workers {
		group.Go(func() {
			for s.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	s.queue.ShutDown()
	group.Wait()
	return nil
}

// Synced waits until what the member holds is known; false if the context
// ended first.
func (s *Store) Synced(ctx context.Context) bool {
	s.init()
	select {
	case <-s.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// Put takes an order of the hub. What can't be read of it is refused at once.
func (s *Store) Put(order *fleetv1.Order) {
	s.init()
	if w := order.GetWithdraw(); w != nil {
		s.putWithdraw(&withdrawal{Withdrawal: w})
		return
	}
	if a := order.GetAssign(); a != nil {
		s.putAssign(a)
	}
}

func (s *Store) putAssign(w *fleetv1.Assignment) {
	a, err := convert.AssignmentFromWire(w)
	if err != nil {
		metricRefused.WithLabelValues(v1alpha1.RefusedInvalid).Inc()
		s.Teller.Add(&fleetv1.OrderResult{
			SessionUid: w.GetSessionUid(), Namespace: w.GetNamespace(), Name: w.GetName(),
			Epoch: w.GetEpoch(), SpecHash: w.GetSpecHash(), Code: fleetv1.ResultCode_RESULT_CODE_REFUSED,
			Reason: v1alpha1.RefusedInvalid, Message: fmt.Sprintf("reading the assignment: %v", err),
		})
		return
	}
	uid := a.Spec.Session.UID
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stillStops(uid, a.Spec.Epoch) {
		return // Stopped answers it once that is true; Refused would say so now.
	}
	lowest := s.floors.of(uid)
	if a.Spec.Epoch < lowest || !s.slotOf(uid).putAssign(a, time.Now()) {
		metricRefused.WithLabelValues(v1alpha1.RefusedStaleEpoch).Inc()
		s.Teller.Add(staleEpoch(a, max(lowest, a.Spec.Epoch+1)))
		s.dropEmpty(uid)
		return
	}
	s.floors.raise(uid, a.Spec.Epoch)
	s.queue.Add(uid)
}

// stillStops reports whether an epoch is withdrawn, or was deleted by hand, and its
// stop is not confirmed yet. It is called with the lock held.
func (s *Store) stillStops(uid types.UID, epoch int64) bool {
	sl := s.slots[uid]
	return sl != nil && sl.withdraw != nil && epoch <= sl.withdraw.GetUpToEpoch()
}

func (s *Store) putWithdraw(w *withdrawal) {
	uid := types.UID(w.GetSessionUid())
	if uid == "" || w.GetUpToEpoch() < 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floors.raise(uid, w.GetUpToEpoch()+1)
	s.slotOf(uid).putWithdraw(w)
	s.queue.Add(uid)
}

// slotOf and dropEmpty are called with the lock held.
func (s *Store) slotOf(uid types.UID) *slot {
	if s.slots[uid] == nil {
		s.slots[uid] = &slot{}
	}
	metricPending.Set(float64(len(s.slots)))
	return s.slots[uid]
}

func (s *Store) dropEmpty(uid types.UID) {
	if sl := s.slots[uid]; sl != nil && sl.empty() {
		delete(s.slots, uid)
		metricPending.Set(float64(len(s.slots)))
	}
}

// work does what is to be done about one session; false when there will be
// no more.
func (s *Store) work(ctx context.Context) bool {
	uid, shutdown := s.queue.Get()
	if shutdown {
		return false
	}
	defer s.queue.Done(uid)
	if err := s.settle(ctx, uid); err != nil {
		s.logFailure(ctx, uid, err)
		s.queue.AddRateLimited(uid)
		return true
	}
	s.queue.Forget(uid)
	return true
}

// logFailure logs the first failure in a row; the others are a detail.
func (s *Store) logFailure(ctx context.Context, uid types.UID, err error) {
	logger := log.FromContext(ctx)
	switch {
	case ctx.Err() != nil:
	case s.queue.NumRequeues(uid) == 0:
		logger.Error(err, "an order could not be carried out, will retry", "sessionUID", uid)
	default:
		logger.V(1).Info("an order still can't be carried out", "sessionUID", uid, "reason", err.Error())
	}
}

// settle carries out the withdrawal first and the assignment then. Each stays
// in its slot until it is answered for good.
func (s *Store) settle(ctx context.Context, uid types.UID) error {
	s.mu.Lock()
	current := slot{}
	if sl := s.slots[uid]; sl != nil {
		current = *sl
	}
	s.mu.Unlock()
	if w := current.withdraw; w != nil {
		done, err := s.withdraw(ctx, w)
		if err != nil {
			return fmt.Errorf("withdrawing %s/%s up to epoch %d: %w", w.GetNamespace(), w.GetName(), w.GetUpToEpoch(), err)
		}
		if !done {
			s.queue.AddAfter(uid, lookAgain)
		} else {
			s.clear(uid, func(sl *slot) {
				if sl.withdraw == w {
					sl.withdraw = nil
				}
			})
		}
	}
	switch {
	case current.assign != nil:
		return s.settleAssign(ctx, uid, current.assign, current.came)
	case current.late != nil:
		return s.settleLate(ctx, uid, current.late)
	}
	return nil
}

func (s *Store) settleAssign(ctx context.Context, uid types.UID, a *v1alpha1.SessionAssignment, came time.Time) error {
	began := time.Now()
	out, err := s.apply(ctx, a)
	if err != nil {
		return fmt.Errorf("storing %s/%s, epoch %d: %w", a.Namespace, a.Name, a.Spec.Epoch, err)
	}
	if out == nil {
		s.queue.AddAfter(uid, lookAgain)
		return nil
	}
	s.traceStored(a, out, came, began)
	tellRefused(ctx, a, out)
	s.answer(uid, a, out)
	if len(out.missing) > 0 {
		s.queue.AddAfter(uid, secretsAgain)
		log.FromContext(ctx).Info("Secrets of a session can't be stored, will retry",
			"namespace", a.Namespace, "assignment", a.Name, "why", out.missing)
	}
	return nil
}

// answer tells what became of an assignment, unless a newer order has come
// meanwhile and will be answered instead.
func (s *Store) answer(uid types.UID, a *v1alpha1.SessionAssignment, out *outcome) {
	current := false
	s.clear(uid, func(sl *slot) {
		if sl.assign == a {
			sl.assign, sl.late, current = nil, nil, true
			if len(out.missing) > 0 {
				sl.late = a
			}
		}
	})
	if !current {
		return
	}
	if out.result.GetCode() == fleetv1.ResultCode_RESULT_CODE_REFUSED {
		metricRefused.WithLabelValues(out.result.GetReason()).Inc()
	}
	s.Teller.Add(out.result)
}

func (s *Store) clear(uid types.UID, change func(*slot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.slots[uid]; sl != nil {
		change(sl)
	}
	s.dropEmpty(uid)
}
