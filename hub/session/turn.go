package session

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/queue"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// gateWait is how long a decision waits at most for those whose turn came
// before: one that hangs on the API server holds up nobody for longer.
const gateWait = 250 * time.Millisecond

// turns is the order in which the Reconciler's workers take up sessions: the
// storage of its workqueue. It also sees to it that those that wait for a place
// are decided on in that order, though many workers have one each in hand.
type turns struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	queue *queue.Queue[reconcile.Request]
	// ranks of those that wait for a place; of the others nothing is kept.
	ranks map[reconcile.Request]queue.Rank
	// open are the turns of sessions that a worker has in hand.
	open map[reconcile.Request]*turn
	last uint64
	// moved is closed, and recreated, when a turn is past its decision.
	moved chan struct{}
}

// turn of a session that waits for a place.
type turn struct {
	number uint64
	turn   queue.Turn
	// past its decision. served: it came to a place.
	past, served bool
}

var _ workqueue.Queue[reconcile.Request] = &turns{}

func newTurns(c clock.PassiveClock) *turns {
	return &turns{
		clock: c,
		queue: queue.New[reconcile.Request](),
		ranks: map[reconcile.Request]queue.Rank{},
		open:  map[reconcile.Request]*turn{},
		moved: make(chan struct{}),
	}
}

// Touch gives a session that is queued the rank that it has now
// (workqueue.Queue).
func (t *turns) Touch(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Touch(item, t.ranks[item])
}

// Push queues a session (workqueue.Queue).
func (t *turns) Push(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Push(item, t.ranks[item])
}

// Len is how many sessions are queued (workqueue.Queue).
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Len()
}

// Pop gives the next session its turn (workqueue.Queue).
func (t *turns) Pop() reconcile.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	item, got, _ := t.queue.Pop(t.clock.Now())
	if got.Waits() {
		t.last++
		t.open[item] = &turn{number: t.last, turn: got}
	}
	return item
}

// rank notes how a session stands among those that wait. No call to the API
// server is made when it is queued: this is all that is known of it then.
func (t *turns) rank(s *v1alpha1.VDISession) {
	item := requestFor(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := rankOf(s); r.Waits {
		t.ranks[item] = r
		return
	}
	delete(t.ranks, item)
}

// forget a session that is gone.
func (t *turns) forget(s *v1alpha1.VDISession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ranks, requestFor(s))
}

// ranked notes every session's rank before the controller queues it.
func (t *turns) ranked() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { t.rank(e.Object.(*v1alpha1.VDISession)); return true },
		UpdateFunc:  func(e event.UpdateEvent) bool { t.rank(e.ObjectNew.(*v1alpha1.VDISession)); return true },
		DeleteFunc:  func(e event.DeleteEvent) bool { t.forget(e.Object.(*v1alpha1.VDISession)); return true },
		GenericFunc: func(e event.GenericEvent) bool { t.rank(e.Object.(*v1alpha1.VDISession)); return true },
	}
}

// rankOf is a session's rank by what it says itself.
func rankOf(s *v1alpha1.VDISession) queue.Rank {
	if !wantsPlace(s) {
		return queue.Rank{}
	}
	return rankAmongWaiting(s)
}

// rankAmongWaiting is the rank of a session that waits for room.
func rankAmongWaiting(s *v1alpha1.VDISession) queue.Rank {
	return queue.Rank{
		Waits: true, Priority: s.Spec.Placement.Priority,
		Namespace: s.Namespace, User: s.Spec.User, Since: waitsSince(s),
	}
}

// wantsPlace is whether a session is to run and has no room to.
func wantsPlace(s *v1alpha1.VDISession) bool {
	if !s.DeletionTimestamp.IsZero() || s.Spec.OperatingMode == v1alpha1.ModeSuspended || len(status.AwaitedReleases(s)) > 0 {
		return false
	}
	if s.Status.Placement == nil || status.FailoverPending(s) {
		return true
	}
	return s.Status.Placement.Idle && (status.FailedPermanently(s) == nil || status.Retrying(s))
}

// waitsSince is since when a session has had no place, or, before it ever had
// one, since it was created.
func waitsSince(s *v1alpha1.VDISession) time.Time {
	for i := range s.Status.Conditions {
		c := &s.Status.Conditions[i]
		if c.Type == v1alpha1.ConditionScheduled && s.Status.Epoch > 0 {
			return c.LastTransitionTime.Time
		}
	}
	return s.CreationTimestamp.Time
}

// decide makes a decision on a session in its turn.
func (r *Reconciler) decide(ctx context.Context, s *v1alpha1.VDISession, decision func() placement.Decision) placement.Decision {
	item := requestFor(s)
	r.turns().wait(ctx, item)
	defer r.turns().decided(item)
	if d, yes := r.claimed(s); yes {
		return d
	}
	return decision()
}

// wait waits until every turn that came before is past its decision, over, or
// has been waited for long enough.
func (t *turns) wait(ctx context.Context, item reconcile.Request) {
	timeout := time.NewTimer(gateWait)
	defer timeout.Stop()
	for {
		moved, first := t.isFirst(item)
		if first {
			return
		}
		select {
		case <-moved:
		case <-timeout.C:
			t.overtake(item)
			return
		case <-ctx.Done():
			return
		}
	}
}

// isFirst is whether no turn that came before is still to be decided on; if one
// is, moved tells when to look again.
func (t *turns) isFirst(item reconcile.Request) (moved <-chan struct{}, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.open[item]
	if mine == nil {
		return nil, true
	}
	for _, other := range t.open {
		if other.number < mine.number && !other.past {
			return t.moved, false
		}
	}
	return nil, true
}

// overtake gives up waiting for the turns that came before, for all that wait for
// them: one that hangs costs everybody together one gateWait.
func (t *turns) overtake(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.open {
		if other.number < t.open[item].number {
			other.past = true
		}
	}
	t.tell()
}

// decided lets the next turn decide.
func (t *turns) decided(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine := t.open[item]; mine != nil && !mine.past {
		mine.past = true
		t.tell()
	}
}

// served says that a turn came to a place.
func (t *turns) served(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine := t.open[item]; mine != nil {
		mine.served = true
	}
}

// over ends a turn.
func (t *turns) over(item reconcile.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.open[item]
	if mine == nil {
		return
	}
	delete(t.open, item)
	t.queue.Settle(mine.turn, mine.served, t.clock.Now())
	if !mine.past {
		t.tell()
	}
}

// tell those that wait for their decision to look again. The caller holds the
// lock.
func (t *turns) tell() {
	close(t.moved)
	t.moved = make(chan struct{})
}

// depth is how many sessions are queued that wait for no place, and that do.
func (t *turns) depth() (settled, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Len() - t.queue.Waiting(), t.queue.Waiting()
}

// workqueue is a rate-limiting workqueue that gives turns in this order.
func (t *turns) workqueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return orderedBy(t, name, limiter)
}

// orderedBy returns a rate-limiting workqueue with the order of its storage.
func orderedBy(storage workqueue.Queue[reconcile.Request], name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: storage})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: name, Queue: ordered,
		}),
	})
}
