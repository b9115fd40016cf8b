package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/activity"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// timeMemory has the state of a session's time. Losing it costs up to a second of the time
// used: the status has the other state.
type timeMemory struct {
	// seen is when this process first saw the assignment. The monotonic time since then
	// counts, so that setting the clock does not affect sessions.
	seen time.Time
	// usage includes the stored usage of earlier processes.
	usage observe.Usage
	// observed is set once a pass of this process has seen the desktop.
	observed bool
	// warned is the timeout of the last warning, if any.
	warned time.Duration
	// activity of the desktop at the last pass.
	activity activity.Result
	// use is that of a desktop that reports it by annotation.
	use annotatedUse
	// reportedSilent is set once this run has an event that the idle timeout is not
	// enforced.
	reportedSilent bool
}

// instant returns the time of a pass that begins. Its two clocks are read together: a slow pass
// would otherwise move the beginning of the run.
func (d *Dependencies) instant(p *pass) observe.Instant {
	t := &p.memory.time
	if t.seen.IsZero() {
		t.seen = p.Now
		t.usage = observe.Restore(p.Assignment, observe.Instant{Wall: p.Now})
	}
	return observe.Instant{Wall: p.Now, Process: d.Clock.Since(t.seen)}
}

// timeout stops a desktop whose timeout has passed. It runs again if the timeout is raised.
func (d *Dependencies) timeout(_ context.Context, p *pass) error {
	if p.memory.time.usage.Expired(p.Assignment, p.at) {
		p.ending = observe.TimeExpired(p.Assignment)
	}
	return nil
}

// account begins and ends the session's run, sets the time used in the status, and requeues
// for when a limit is near.
func (d *Dependencies) account(ctx context.Context, p *pass, want *api.SessionAssignmentStatus) {
	at, t := p.at, &p.memory.time
	defer func() { t.observed = true }()
	switch ready := meta.IsStatusConditionTrue(want.Conditions, api.ConditionPodReady); {
	case mustNotRun(p):
		d.endRun(ctx, p, at)
	case p.failure != nil:
		// The run ends once the failure is written.
		t.usage.End(p.Assignment, at).Store(want, at)
		observe.ShowIdle(want, t.activity.Use, false)
		return
	case ready:
		t.usage = t.usage.Begin(p.Assignment, p.readyBefore(), at)
	}
	t.usage.Store(want, at)
	observe.ShowIdle(want, t.activity.Use, t.usage.Running)
	if t.activity.Idle == observe.IdleSoon {
		observe.WarnIdle(want, p.Assignment)
	}
	d.requeueForTimeout(p, at)
}

// readyBefore returns how long a ready desktop was that before this process first saw it: it
// became ready while no agent ran, and no run was stored.
func (p *pass) readyBefore() time.Duration {
	ready := trueSince(p.Found.Pod, corev1.PodReady)
	if p.memory.time.observed || ready.IsZero() {
		return 0
	}
	return p.Now.Sub(ready)
}

func (d *Dependencies) endRun(ctx context.Context, p *pass, at observe.Instant) {
	t := &p.memory.time
	t.activity, t.reportedSilent = d.noActivity(p), false
	if !t.usage.Running {
		return
	}
	if t.usage = t.usage.End(p.Assignment, at); p.Assignment.FailedPermanently() && p.Assignment.Status.RunningSince == nil {
		// The run ended when the failure was written.
		t.usage = observe.Restore(p.Assignment, at)
	}
	log.FromContext(ctx).V(1).Info("The desktop's run is over", "timeUsed", string(api.DurationOf(t.usage.Elapsed(p.Assignment, at))))
	if p.ending != nil && p.ending.Reason == api.ReasonTimeExpired {
		d.event(p.Assignment, corev1.EventTypeWarning, api.EventExpired, p.ending.Message)
	}
}

// requeueForTimeout requeues the session for the warning before its timeout, which it records
// once, and for the timeout.
func (d *Dependencies) requeueForTimeout(p *pass, at observe.Instant) {
	t := &p.memory.time
	left, limited := t.usage.Left(p.Assignment, at)
	if !limited || !t.usage.Running {
		return
	}
	p.RequeueWithin(max(left, time.Millisecond))
	limit, _ := p.Assignment.Spec.Timeout.Value()
	warnAt := left - api.WarnBefore(limit)
	if warnAt > 0 {
		p.RequeueWithin(warnAt)
		return
	}
	if t.warned != limit {
		t.warned = limit
		d.event(p.Assignment, corev1.EventTypeWarning, api.EventExpiringSoon, fmt.Sprintf(
			"The timeout of %s ends the session soon: save your work, or raise spec.timeout.", p.Assignment.Spec.Timeout))
	}
}
