package session

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// memory has the state of one assignment between passes. No guarantee depends on it: losing it
// costs a few writes. One worker at a time uses it.
type memory struct {
	uid      types.UID
	children *children.Memory
	// ended is the last Pod that ended by itself.
	ended lastEnd
	// podSpans are the recorded spans of the Pod.
	podSpans podSpans
	// status is the state of status writes.
	status statusMemory
	// stoppedAt is when a withdrawn assignment was first seen with other children but no
	// Pod.
	stoppedAt time.Time
	// gateOutdatedSince is when the Pod's gate was first seen as outdated; zero if it is not.
	gateOutdatedSince time.Time
	// forceReported is set once there is an event that the cleanup is forced.
	forceReported bool
	// attempt that was last seen.
	attempt int64
	// time is the session's running time.
	time timeMemory
}

type lastEnd struct {
	pod   types.UID
	at    time.Time
	times int
}

type statusMemory struct {
	// basedOn is the resource version before the last write: while the cache shows it, the
	// write is not visible yet.
	basedOn string
	// writtenAt is the time of the last write by this process, if any.
	writtenAt time.Time
	// differsSince is when the status was first seen to differ from the written one; zero if
	// it does not.
	differsSince time.Time
}

// begin resets all backoff at the next attempt.
func (m *memory) begin(attempt int64) {
	if attempt > m.attempt {
		m.children.Retry()
		m.ended = lastEnd{}
	}
	m.attempt = max(m.attempt, attempt)
}

// memoryOf returns the memory of an assignment, a new one for a new UID.
func (r *Reconciler) memoryOf(a *api.SessionAssignment) *memory {
	key := client.ObjectKeyFromObject(a)
	if known, _ := r.memories.Load(key); known != nil && known.(*memory).uid == a.UID {
		return known.(*memory)
	}
	fresh := &memory{uid: a.UID, attempt: a.Spec.Attempt, children: children.NewMemory()}
	r.memories.Store(key, fresh)
	return fresh
}
