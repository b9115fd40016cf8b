package session

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// awaitFailover shows what a session waits for whose member is lost. Otherwise the pass
// only shows its last known state.
func (r *Reconciler) awaitFailover(ctx context.Context, p *pass, v failover.Verdict, message string) (next, error) {
	s := p.session
	waited := status.FailoverPending(s)
	c := metav1.Condition{
		Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonFailoverPending, Message: message,
	}
	if s.Status.Placement.Idle {
		// It has no capacity, and shows that like all sessions without capacity.
		c.Type, c.Status = v1alpha1.ConditionScheduled, metav1.ConditionFalse
	}
	if v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, c) && !waited {
		p.record(r, "Warning", v1alpha1.EventFailoverPending, "Failover", message)
	}
	p.again = backoff.Sooner(p.again, v.Wait)
	_, err := r.overlay(ctx, p)
	return done, err
}

// observeFailover measures a failover: the session's member sent its last heartbeat at
// heard, the decision was made at made, and is stored now.
func (r *Reconciler) observeFailover(session types.UID, heard, made time.Time) {
	known := r.memory.Found(session)
	if known.IsZero() {
		known = made
	}
	detection.Observe(max(0, known.Sub(heard).Seconds()))
	decision.Observe(max(0, r.Clock.Since(known).Seconds()))
}
