package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// report writes the status, if it changed and has waited long enough, and records an event, a
// log line and a span of the change.
func (d *Dependencies) report(ctx context.Context, p *pass, want api.SessionAssignmentStatus) error {
	have, m := p.Assignment.Status, &p.memory.status
	if equality.Semantic.DeepEqual(have, want) {
		m.differsSince = time.Time{}
		return nil
	}
	if m.basedOn == p.Assignment.ResourceVersion {
		// The cache does not show the last write yet, whose event causes the next pass.
		p.RequeueWithin(children.CacheDelay)
		return nil
	}
	if m.differsSince.IsZero() {
		m.differsSince = p.Now
	}
	if wait := writeDelay(p.Assignment.Spec.RunState, have, want, *m, d.Options, p.Now); wait > 0 {
		p.RequeueWithin(wait)
		return nil
	}
	return d.writeStatus(ctx, p, want)
}

func (d *Dependencies) writeStatus(ctx context.Context, p *pass, want api.SessionAssignmentStatus) error {
	before := p.Assignment.DeepCopy()
	p.Assignment.Status = want
	children.CountWrite(kindAssignment, "status")
	err := d.Client.Status().Update(ctx, p.Assignment)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		p.RequeueWithin(children.ConflictRetry)
		return nil
	case err != nil:
		return fmt.Errorf("writing the status: %w", err)
	}
	p.memory.status = statusMemory{writtenAt: p.Now}
	if p.Assignment.ResourceVersion != before.ResourceVersion {
		p.memory.status.basedOn = before.ResourceVersion
	}
	d.wroteStatus(ctx, p, before.Status, want)
	d.announce(p.Assignment, before.Status, want)
	return nil
}

// maxNote is the most bytes of an event's note without its ellipsis.
const maxNote = 1000

// announce records an event for what a status write has changed.
func (d *Dependencies) announce(a *api.SessionAssignment, have, want api.SessionAssignmentStatus) {
	switch {
	case observe.Ready(want) && !observe.Ready(have) && have.StartTime == nil:
		// The first start has events on the hub's session and on the Pod.
		startTime.Observe(want.StartTime.Sub(a.CreationTimestamp.Time).Seconds())
	case observe.Ready(want) && !observe.Ready(have):
		d.event(a, corev1.EventTypeNormal, api.EventRunning, "The desktop runs again, on node "+want.NodeName+".")
	case want.Failure != nil && have.Failure == nil:
		failures.WithLabelValues(want.Failure.Reason).Inc()
		d.event(a, corev1.EventTypeWarning, api.EventFailed, want.Failure.Message)
	case want.Failure != nil, want.State == api.AssignmentStopping, want.Reason == have.Reason:
	case slices.ContainsFunc(want.Conditions, observe.IsTrouble):
		d.event(a, corev1.EventTypeWarning, api.EventWaiting, want.Message)
	}
}

func (d *Dependencies) event(a *api.SessionAssignment, severity, reason, note string) {
	if len(note) > maxNote {
		note = note[:maxNote] + "..."
	}
	d.Recorder.Eventf(a, nil, severity, reason, "Reconcile", "%s", note)
}

// fail fails the session's attempt permanently if a retry can't help, or a step has failed it.
// This pass writes the failure; the next removes the Pod, and nothing is retried until
// spec.attempt is raised.
func (d *Dependencies) fail(p *pass, status *api.SessionAssignmentStatus) {
	if mustNotRun(p) {
		return
	}
	if p.failure == nil {
		failure, recheck := observe.FailureOf(p.Assignment, p.Found, *status, p.memory.ended.times, d.Options.RetryLimits, p.Now)
		p.failure = failure
		p.RequeueWithin(recheck)
	}
	if p.failure != nil {
		observe.Fail(status, p.Assignment, p.failure, p.Now)
	}
}
