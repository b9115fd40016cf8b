package children

import (
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

// Memory has the state of one assignment's children between reconciles. The key of its maps,
// except removed, is the kind's name. It is not safe for concurrent use.
type Memory struct {
	// created are children that the cache may not show yet.
	created map[string]creation
	// removed is when an object was deleted, by its UID.
	removed map[types.UID]time.Time
	// refused are children that the API server denied, or with a name conflict.
	refused map[string]refusal
	// repairs of each child, with backoff for one that another controller or a webhook
	// changes repeatedly.
	repairs map[string]repairs
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
func NewMemory() *Memory {
	m := &Memory{created: map[string]creation{}, removed: map[types.UID]time.Time{}}
	m.Retry()
	return m
}

// Retry resets all backoff, for the next attempt of a session.
func (m *Memory) Retry() {
	m.refused, m.repairs = map[string]refusal{}, map[string]repairs{}
}

// createdRecently returns the created child that the cache does not show, and how long it
// still counts.
func (m *Memory) createdRecently(kind string, now time.Time) (client.Object, time.Duration) {
	created := m.created[kind] // long ago if there is none
	left := CacheDelay - now.Sub(created.at)
	if left <= 0 {
		delete(m.created, kind)
		return nil, 0
	}
	return created.object, left
}

// refusedUntil returns the problem of a child, and the delay before the next try. A new
// generation of the assignment is tried at once; an invalid child only then.
func (m *Memory) refusedUntil(kind string, generation int64, now time.Time) (*observe.Problem, time.Duration) {
	r, ok := m.refused[kind]
	if !ok || r.generation != generation || !r.problem.Invalid && !now.Before(r.retryAt) {
		return nil, 0
	}
	return &r.problem, max(r.retryAt.Sub(now), 0)
}

// mayRepair returns how long the repair of a child must wait. If that is zero, it counts a
// repair.
func (m *Memory) mayRepair(kind string, now time.Time) time.Duration {
	before := m.repairs[kind]
	if now.Sub(before.last) > 2*lastRetry {
		before.times = 0
	}
	if before.times > 0 {
		if wait := before.last.Add(RetryAfter(before.times - 1)).Sub(now); wait > 0 {
			return wait
		}
	}
	m.repairs[kind] = repairs{last: now, times: before.times + 1}
	return 0
}

// refuse records a problem, and returns it with the delay before the next try, which a
// recurrence does not postpone.
func (m *Memory) refuse(kind string, generation int64, problem observe.Problem, now time.Time) (*observe.Problem, time.Duration) {
	times := 0
	if r, ok := m.refused[kind]; ok && r.generation == generation {
		if r.problem == problem && now.Before(r.retryAt) {
			return &r.problem, r.retryAt.Sub(now)
		}
		times = r.times
	}
	wait := RetryAfter(times)
	m.refused[kind] = refusal{problem: problem, generation: generation, times: times + 1, retryAt: now.Add(wait)}
	return &problem, wait
}

// RetryAfter returns the backoff after a failure that follows this many.
func RetryAfter(before int) time.Duration {
	return min(firstRetry<<min(before, 10), lastRetry)
}
