package session

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// trustTime is how long our own write is believed before the cache shows it.
const trustTime = 5 * time.Second

// Retries of what was refused, and of a Pod that ended.
const (
	firstRetry = 2 * time.Second
	lastRetry  = 2 * time.Minute
)

// memory is what is remembered of one assignment between two passes. It saves
// writes, and losing it costs no more than a few of them: nothing that must be
// true depends on it. One pass at a time uses it, since one worker at a time
// has its key.
type memory struct {
	uid types.UID
	// made are children that were created and that the cache may not show
	// yet.
	made map[kind]making
	// removed is when an object was asked to go, by its UID.
	removed map[types.UID]time.Time
	// refused are the children that the API server, or their owner, refused.
	refused map[kind]refusal
	// repairs of each child, so that one that another controller or a webhook
	// changes again and again costs ever fewer writes.
	repairs map[kind]repairing
	// ended is the last Pod that ended by itself.
	ended lastEnd
	// sight of the Pod, besides the cache's.
	sight podSight
	// podTold is what the trace was told of the Pod.
	podTold podTold
	// status is what was last written, and what is to be.
	status statusMemory
	// stoppedAt is when a withdrawn assignment was first seen without a Pod, and
	// with something else left.
	stoppedAt time.Time
	// shutSince is since when the Pod is seen to wait at a gate that would not be
	// made so any more; zero: it is not.
	shutSince time.Time
	// forceTold: there is an event that the cleanup is forced.
	forceTold bool
	// attempt that was last seen.
	attempt int64
	// time that the session has used.
	time timeMemory
}

type making struct {
	object client.Object
	at     time.Time
}

type refusal struct {
	problem    observe.Problem
	generation int64
	times      int
	retryAt    time.Time
}

type repairing struct {
	at    time.Time
	times int
}

type lastEnd struct {
	pod   types.UID
	at    time.Time
	times int
}

type statusMemory struct {
	// basedOn is the resource version of the assignment that the last write
	// replaced: while the cache still shows it, the write is on its way.
	basedOn string
	// writtenAt is when that was; zero: not since this process began.
	writtenAt time.Time
	// differsSince is when the status was first seen to differ from what is
	// written; zero: it does not.
	differsSince time.Time
}

// begin forgets how often things went wrong once somebody asks for another
// try.
func (m *memory) begin(attempt int64) {
	if attempt > m.attempt {
		m.refused, m.repairs, m.ended = map[kind]refusal{}, map[kind]repairing{}, lastEnd{}
	}
	m.attempt = max(m.attempt, attempt)
}

// madeRecently is the child that was created and that the cache does not show,
// and for how long that is believed.
func (m *memory) madeRecently(k kind, now time.Time) (client.Object, time.Duration) {
	made, ok := m.made[k]
	if !ok {
		return nil, 0
	}
	left := trustTime - now.Sub(made.at)
	if left <= 0 {
		delete(m.made, k)
		return nil, 0
	}
	return made.object, left
}

// refusedUntil is the problem that stands in the child's way, and how long it
// is not to be tried again. A new generation of the assignment is tried at
// once; what the API server calls invalid has no other hope.
func (m *memory) refusedUntil(k kind, generation int64, now time.Time) (*observe.Problem, time.Duration) {
	r, ok := m.refused[k]
	if !ok || r.generation != generation || !r.problem.Invalid && !now.Before(r.retryAt) {
		return nil, 0
	}
	return &r.problem, max(r.retryAt.Sub(now), 0)
}

// mayRepair is how long a child that needs a repair must wait for it. Zero
// counts as a repair that is being made.
func (m *memory) mayRepair(k kind, now time.Time) time.Duration {
	last := m.repairs[k]
	if now.Sub(last.at) > 2*lastRetry {
		last.times = 0
	}
	if last.times > 0 {
		if wait := last.at.Add(retryAfter(last.times - 1)).Sub(now); wait > 0 {
			return wait
		}
	}
	m.repairs[k] = repairing{at: now, times: last.times + 1}
	return 0
}

// refuse remembers a problem, and returns it with the time until the next try.
// A problem that is met again before that time doesn't move it.
func (m *memory) refuse(k kind, generation int64, problem observe.Problem, now time.Time) (*observe.Problem, time.Duration) {
	times := 0
	if r, ok := m.refused[k]; ok && r.generation == generation {
		if r.problem == problem && now.Before(r.retryAt) {
			return &r.problem, r.retryAt.Sub(now)
		}
		times = r.times
	}
	wait := retryAfter(times)
	m.refused[k] = refusal{problem: problem, generation: generation, times: times + 1, retryAt: now.Add(wait)}
	return &problem, wait
}

// retryAfter the given number of failures before this one.
func retryAfter(before int) time.Duration {
	wait := firstRetry
	for ; before > 0 && wait < lastRetry; before-- {
		wait *= 2
	}
	return min(wait, lastRetry)
}

// memories of all assignments.
type memories struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*memory
}

// of is the memory of an assignment: a new one for one that was not seen
// before, or whose name had another.
func (m *memories) of(a *api.SessionAssignment) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(a)
	if known := m.byKey[key]; known != nil && known.uid == a.UID {
		return known
	}
	if m.byKey == nil {
		m.byKey = map[types.NamespacedName]*memory{}
	}
	fresh := &memory{
		uid:     a.UID,
		attempt: a.Spec.Attempt,
		made:    map[kind]making{},
		removed: map[types.UID]time.Time{},
		refused: map[kind]refusal{},
		repairs: map[kind]repairing{},
	}
	m.byKey[key] = fresh
	return fresh
}

func (m *memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byKey, key)
}
