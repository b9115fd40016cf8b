package review

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/queue"
)

// maxPendingReviews is the maximum number of reviews of one namespace that are queued for
// an answer. Those beyond it are refused, which costs one write each.
const maxPendingReviews = 100

// reviewQueue is the storage of the workqueue of reviews: namespaces alternate, so that
// those with many reviews delay the others by one review each. Within a namespace, those
// to be refused or deleted alternate with those to be computed.
//
// The zero value is ready for use.
type reviewQueue struct {
	mu    sync.Mutex
	queue queue.Queue[reconcile.Request]
	// namespaces are the names of the admitted reviews that have no answer yet.
	namespaces map[string]sets.Set[string]
}

var _ workqueue.Queue[reconcile.Request] = &reviewQueue{}

// observed passes on every event of a review, and admits or releases it before the
// controller queues it.
func (q *reviewQueue) observed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { q.observe(e.Object); return true },
		UpdateFunc:  func(e event.UpdateEvent) bool { q.observe(e.ObjectNew); return true },
		DeleteFunc:  func(e event.DeleteEvent) bool { q.release(client.ObjectKeyFromObject(e.Object)); return true },
		GenericFunc: func(e event.GenericEvent) bool { q.observe(e.Object); return true },
	}
}

func (q *reviewQueue) observe(o client.Object) {
	review, ok := o.(*v1alpha1.PlacementReview)
	switch key := client.ObjectKeyFromObject(o); {
	case !ok:
	case review.Status.ReviewTime != nil || !review.DeletionTimestamp.IsZero():
		q.release(key)
	default:
		q.admit(key)
	}
}

// admit counts a review among the pending ones of its namespace, unless these are at
// their maximum.
func (q *reviewQueue) admit(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending := q.namespaces[key.Namespace]
	if pending.Len() >= maxPendingReviews {
		return
	}
	if pending == nil {
		if q.namespaces == nil {
			q.namespaces = map[string]sets.Set[string]{}
		}
		pending = sets.Set[string]{}
		q.namespaces[key.Namespace] = pending
	}
	pending.Insert(key.Name)
}

func (q *reviewQueue) release(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending := q.namespaces[key.Namespace]
	pending.Delete(key.Name)
	if pending.Len() == 0 {
		delete(q.namespaces, key.Namespace)
	}
}

// admits reports whether a review is to be computed.
func (q *reviewQueue) admits(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.namespaces[key.Namespace].Has(key.Name)
}

// Push queues a review (workqueue.Queue).
func (q *reviewQueue) Push(item reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.Push(item, q.rank(item))
}

// Touch updates the rank of a queued review (workqueue.Queue).
func (q *reviewQueue) Touch(item reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.Touch(item, q.rank(item))
}

// Len returns the number of queued reviews (workqueue.Queue).
func (q *reviewQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue.Len()
}

// Pop returns the next review (workqueue.Queue). It is charged at once: there is one
// worker, and the cost does not depend on the answer.
func (q *reviewQueue) Pop() reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var unaged time.Time // all reviews have the same priority
	item, dispatch, _ := q.queue.Pop(unaged)
	q.queue.Finish(dispatch, true, unaged)
	return item
}

// rank needs the lock.
func (q *reviewQueue) rank(item reconcile.Request) queue.Rank {
	r := queue.Rank{Namespace: item.Namespace}
	if !q.namespaces[item.Namespace].Has(item.Name) {
		r.User = "refused"
	}
	return r
}

// workqueue returns a rate-limiting workqueue in this order.
func (q *reviewQueue) workqueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: q})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: name, Queue: ordered,
		}),
	})
}
