package session

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// memory is what is kept of one assignment from one pass to the next. It saves writes, and
// losing it costs no more than a few of them: nothing that must be true depends on it.
// One pass at a time uses it, since one worker at a time has its key.
type memory struct {
	uid      types.UID
	children *children.Memory
	// ended is the last Pod that ended by itself.
	ended lastEnd
	// sight is whether there is a Pod, besides what the cache shows.
	sight podSight
	// podSpans are those that the trace has of the Pod.
	podSpans podSpans
	// status is what was last written, and what is to be.
	status statusMemory
	// stoppedAt is when a withdrawn assignment was first seen without a Pod, and with
	// another child left.
	stoppedAt time.Time
	// shutSince is since when the Pod is seen to wait at a gate that would be created
	// differently now. It is zero if it does not.
	shutSince time.Time
	// forceReported is set once there is an event that the cleanup is forced.
	forceReported bool
	// attempt that was last seen.
	attempt int64
	// time that the session has used.
	time timeMemory
}

type lastEnd struct {
	pod   types.UID
	at    time.Time
	times int
}

type statusMemory struct {
	// basedOn is the resource version of the assignment that the last write replaced:
	// while the cache still shows it, the write is not visible yet.
	basedOn string
	// writtenAt is when that was, and zero before this process has written.
	writtenAt time.Time
	// differsSince is when the status was first seen to differ from what is written, and
	// zero if it does not.
	differsSince time.Time
}

// begin ends all backoff at the next attempt.
func (m *memory) begin(attempt int64) {
	if attempt > m.attempt {
		m.children.Retry()
		m.ended = lastEnd{}
	}
	m.attempt = max(m.attempt, attempt)
}

// memories has the memory of each assignment.
type memories struct{ byKey sync.Map }

// of returns the memory of an assignment: a new one for an assignment that was not seen
// before, or whose name another had.
func (m *memories) of(a *api.SessionAssignment) *memory {
	key := client.ObjectKeyFromObject(a)
	if known, _ := m.byKey.Load(key); known != nil && known.(*memory).uid == a.UID {
		return known.(*memory)
	}
	fresh := &memory{uid: a.UID, attempt: a.Spec.Attempt, children: children.NewMemory()}
	m.byKey.Store(key, fresh)
	return fresh
}

func (m *memories) forget(key types.NamespacedName) { m.byKey.Delete(key) }
