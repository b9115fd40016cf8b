package session

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// awaitFailover says what a session waits for whose member is lost. Nothing else
// is done with it but to show its last known state.
func (r *Reconciler) awaitFailover(ctx context.Context, p *pass, v failover.Verdict, message string) (next, error) {
	s := p.session
	waited := status.FailoverPending(s)
	c := metav1.Condition{
		Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonFailoverPending, Message: message,
	}
	if s.Status.Placement.Idle {
		// It has no room, and is told so like all that have none.
		c.Type, c.Status = v1alpha1.ConditionScheduled, metav1.ConditionFalse
	}
	if v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, c) && !waited {
		p.record(r, "Warning", v1alpha1.EventFailoverPending, "Failover", message)
	}
	p.again = backoff.Sooner(p.again, v.Wait)
	_, err := r.overlay(ctx, p)
	return done, err
}

// losses remembers since when this process has known of each session that its
// member is lost. It may be forgotten at any time: what a failover took is then
// reckoned from later.
type losses struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// note that a session's member is lost.
func (l *losses) note(session types.UID, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == nil {
		l.since = map[types.UID]time.Time{}
	}
	if _, known := l.since[session]; !known {
		l.since[session] = now
	}
}

// found notes that a session's member is not lost, or that the session is gone.
func (l *losses) found(session types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.since, session)
}

// decided notes that a session was placed anew: its member was last heard of at
// heard, the decision was made at made, and was stored by now.
func (l *losses) decided(session types.UID, heard, made, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.since[session]
	if !ok {
		known = made
	}
	delete(l.since, session)
	detection.Observe(max(0, known.Sub(heard).Seconds()))
	decision.Observe(max(0, now.Sub(known).Seconds()))
}

// count is of how many sessions the member is lost, of those that are to be placed
// anew or held.
func (l *losses) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.since)
}
