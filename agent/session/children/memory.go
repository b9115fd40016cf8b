package children

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
)

// CacheDelay is how long a write counts although the cache does not show it.
const CacheDelay = 5 * time.Second

// Backoff of denied requests and of repairs.
const (
	firstRetry = 2 * time.Second
	lastRetry  = 2 * time.Minute
)

// Memory has the state of one assignment's children between reconciles. Children of different
// kinds may be reconciled concurrently.
type Memory struct {
	mu    sync.Mutex
	kinds map[string]*kindMemory
}

// kindMemory is the memory of the children of one kind.
type kindMemory struct {
	// created is a child that the cache may not show yet.
	created creation
	// removed is when an object was deleted, by its UID.
	removed map[types.UID]time.Time
	// refused is set if the API server denied the child, or on a name conflict.
	refused refusal
	// repairs have backoff for a child that another controller or a webhook changes
	// repeatedly.
	repairs repairs
}

type creation struct {
	object client.Object
	at     time.Time
}

type refusal struct {
	problem    observe.Problem
	generation int64
	times      int
	retryAt    time.Time
}

type repairs struct {
	last  time.Time
	times int
}

// NewMemory returns the memory of a new assignment.
func NewMemory() *Memory { return &Memory{kinds: map[string]*kindMemory{}} }

// of returns the memory of a kind.
func (m *Memory) of(kind string) *kindMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kinds[kind] == nil {
		m.kinds[kind] = &kindMemory{removed: map[types.UID]time.Time{}}
	}
	return m.kinds[kind]
}

// Retry resets all backoff, for the next attempt of a session.
func (m *Memory) Retry() {
	for _, k := range m.kinds {
		k.refused, k.repairs = refusal{}, repairs{}
	}
}

// createdRecently returns the created child that the cache does not show, and how long it
// still counts.
func (k *kindMemory) createdRecently(now time.Time) (client.Object, time.Duration) {
	left := CacheDelay - now.Sub(k.created.at) // long ago if there is none
	if left <= 0 {
		k.created = creation{}
		return nil, 0
	}
	return k.created.object, left
}

// refusedUntil returns the problem of a child, and the delay before the next try. A new
// generation of the assignment is tried at once; an invalid child only then.
func (k *kindMemory) refusedUntil(generation int64, now time.Time) (*observe.Problem, time.Duration) {
	r := k.refused
	if r.times == 0 || r.generation != generation || !r.problem.Invalid && !now.Before(r.retryAt) {
		return nil, 0
	}
	return &r.problem, max(r.retryAt.Sub(now), 0)
}

// mayRepair returns how long the repair of a child must wait. If that is zero, it counts a
// repair.
func (k *kindMemory) mayRepair(now time.Time) time.Duration {
	before := k.repairs
	if now.Sub(before.last) > 2*lastRetry {
		before.times = 0
	}
	if before.times > 0 {
		if wait := before.last.Add(RetryAfter(before.times - 1)).Sub(now); wait > 0 {
			return wait
		}
	}
	k.repairs = repairs{last: now, times: before.times + 1}
	return 0
}

// refuse records a problem, and returns it with the delay before the next try, which a
// recurrence does not postpone.
func (k *kindMemory) refuse(generation int64, problem observe.Problem, now time.Time) (*observe.Problem, time.Duration) {
	times := 0
	if r := k.refused; r.generation == generation {
		if r.problem == problem && now.Before(r.retryAt) {
			return &r.problem, r.retryAt.Sub(now)
		}
		times = r.times
	}
	wait := RetryAfter(times)
	k.refused = refusal{problem: problem, generation: generation, times: times + 1, retryAt: now.Add(wait)}
	return &problem, wait
}

// RetryAfter returns the backoff after a failure that follows this many.
func RetryAfter(before int) time.Duration {
	return min(firstRetry<<min(before, 10), lastRetry)
}
