package assignment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// ControllerName names the controller in logs and metrics.
const ControllerName = "assignment"

// workers is the number of sessions that are reconciled at once.
const workers = 8

// Reporter sends results and reports to the hub. Its methods never block.
type Reporter interface {
	// Add sends the result of an order, or a stop without one.
	Add(*fleetv1.OrderResult)
	// Mark reports an assignment whose state has changed.
	Mark(link.Ref)
}

// Capacity decides which assignments fit, and counts those that are stored.
type Capacity interface {
	// Refuses returns why an assignment does not fit, and "" if it may be stored.
	Refuses(*v1alpha1.SessionAssignment) string
	// Stored takes a stored assignment into account and returns the sequence of the
	// first capacity report that counts it.
	Stored(*v1alpha1.SessionAssignment) uint64
}

// Options of a Store.
type Options struct {
	// Client reads from the manager's cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	Cache  cache.Cache
	// Reporter and Capacity may be set after New, and must be before the manager starts.
	Reporter Reporter
	Capacity Capacity
	// Restrictions of the member's administrator.
	Restrictions *restriction.Settings
	// Starts bounds the desktops that are started at once.
	Starts *Starts
	// Trace of sessions. Without it none is traced.
	Trace *tracing.Tracer
}

// Store stores the hub's orders as SessionAssignments.
type Store struct {
	*Options
	applier    applier
	withdrawer withdrawer
	secrets    secretWriter
	synced     chan struct{}
	mu         sync.Mutex
	pending    *pending
	queue      workqueue.TypedRateLimitingInterface[types.UID]
}

// New returns a Store. It accepts orders at once, and carries them out once the manager
// has started its controller.
func New(options Options) *Store {
	o := &options
	secrets := secretWriter{o}
	return &Store{
		Options: o, secrets: secrets, withdrawer: withdrawer{o},
		applier: applier{Options: o, secrets: secrets, ordered: &sync.Map{}},
		pending: newPending(), synced: make(chan struct{}),
	}
}

// SetupWithManager adds the controller to the manager.
func (s *Store) SetupWithManager(mgr ctrl.Manager) error {
	of := func(o client.Object) []string { return render.AssignmentOf(o) }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Secret{}, render.AssignmentIndex, of); err != nil {
		return fmt.Errorf("indexing Secrets by assignment: %w", err)
	}
	made, err := controller.NewTyped(ControllerName, mgr, controller.TypedOptions[types.UID]{
		Reconciler:              s,
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, 30*time.Second),
		LogConstructor: func(uid *types.UID) logr.Logger {
			return mgr.GetLogger().WithName(ControllerName).WithValues("sessionUID", ptr.Deref(uid, ""))
		},
	})
	if err != nil {
		return fmt.Errorf("building the assignment controller: %w", err)
	}
	sweep := manager.RunnableFunc(func(ctx context.Context) error {
		if s.Synced(ctx) {
			s.secrets.sweep(ctx)
		}
		return nil
	})
	return errors.Join(made.Watch(&watch{Store: s}), mgr.Add(sweep))
}

// Synced waits until the member's assignments are known. It returns false if the context
// ends first.
func (s *Store) Synced(ctx context.Context) bool {
	select {
	case <-s.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// Put accepts an order of the hub, and refuses one that can't be read. It may be called by
// any goroutine, and never blocks.
func (s *Store) Put(order *fleetv1.Order) {
	if w := order.GetWithdraw(); w.GetSessionUid() != "" && w.GetUpToEpoch() >= 1 {
		s.change(types.UID(w.GetSessionUid()), func(p *pending) bool {
			p.withdraw(&withdrawal{Withdrawal: w})
			return true
		})
	}
	if a := order.GetAssign(); a != nil {
		s.putAssign(a)
	}
}

func (s *Store) putAssign(w *fleetv1.Assignment) {
	a, err := convert.AssignmentFromWire(w)
	if err != nil {
		metricRefused.WithLabelValues(v1alpha1.RefusedInvalid).Inc()
		s.Reporter.Add(&fleetv1.OrderResult{
			SessionUid: w.GetSessionUid(), Namespace: w.GetNamespace(), Name: w.GetName(),
			Epoch: w.GetEpoch(), SpecHash: w.GetSpecHash(), Code: fleetv1.ResultCode_RESULT_CODE_REFUSED,
			Reason: v1alpha1.RefusedInvalid, Message: fmt.Sprintf("reading the assignment: %v", err),
		})
		return
	}
	s.change(a.Spec.Session.UID, func(p *pending) bool {
		accepted, minEpoch := p.assign(a, time.Now())
		if minEpoch > 0 {
			metricRefused.WithLabelValues(v1alpha1.RefusedStaleEpoch).Inc()
			s.Reporter.Add(staleEpoch(a, minEpoch))
		}
		return accepted
	})
}

// change changes the pending orders of a session, and enqueues the session if change
// returns true.
func (s *Store) change(uid types.UID, change func(*pending) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	enqueue := change(s.pending)
	metricPending.Set(float64(len(s.pending.slots)))
	if enqueue && s.queue != nil {
		s.queue.Add(uid)
	}
}

// Ordered reports whether this process was the first to store the assignment's epoch. It
// may be called by any goroutine.
func (s *Store) Ordered(a *v1alpha1.SessionAssignment) bool {
	epoch, known := s.applier.ordered.Load(a.UID)
	return known && epoch.(int64) >= a.Spec.Epoch
}
