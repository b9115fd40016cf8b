package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// timeMemory is what is kept of a session's time. Losing it costs a second of what the
// session has used: the status has all else.
type timeMemory struct {
	// seen is when this process first saw the assignment. The time since then counts: it
	// is monotonic, and so setting the member's clock lengthens and shortens no session.
	seen time.Time
	// usage since then, and that which was stored before.
	usage observe.Usage
	// observed is set once a pass of this process has seen the desktop.
	observed bool
	// warned is the timeout of which the session was warned, if any.
	warned time.Duration
	// idle is how near the idle timeout was at the last pass.
	idle observe.Idleness
	// unused is since when it is not used, as last reported.
	unused observe.Use
	// use of a desktop that reports it by annotation.
	use use
	// reportedSilent is set once an event of this run has reported that the idle timeout
	// can't be enforced.
	reportedSilent bool
}

// timekeeper enforces time limits, and keeps account of the time that sessions use.
type timekeeper struct{ *Dependencies }

// instant returns the time of the pass, for the time model.
func (k *timekeeper) instant(p *pass) observe.Instant {
	t := &p.memory.time
	if t.seen.IsZero() {
		t.seen = p.now
		t.usage = observe.Recall(p.assignment, observe.Instant{Wall: p.now})
	}
	return observe.Instant{Wall: p.now, Process: k.Clock.Since(t.seen)}
}

// timeout ends a desktop whose time is over. It runs again if the timeout is raised.
func (k *timekeeper) timeout(_ context.Context, p *pass) error {
	at := k.instant(p)
	if p.memory.time.usage.Expired(p.assignment, at) {
		p.ending = observe.TimeExpired(p.assignment)
	}
	return nil
}

// account begins and ends the session's run, sets in the status how long it has run, and
// requeues for when a limit is near.
func (k *timekeeper) account(ctx context.Context, p *pass, want *api.SessionAssignmentStatus) {
	at, t := k.instant(p), &p.memory.time
	defer func() { t.observed = true }()
	switch ready := meta.IsStatusConditionTrue(want.Conditions, api.ConditionPodReady); {
	case p.runIsOver():
		k.endRun(ctx, p, at)
	case p.failure != nil:
		// It counts once it is written. If that fails, the run goes on until the next
		// pass.
		t.usage.End(p.assignment, at).Store(want, at)
		observe.ShowIdle(want, t.unused, false)
		return
	case ready:
		t.usage = t.usage.Begin(p.assignment, p.unseen(), at)
	}
	t.usage.Store(want, at)
	observe.ShowIdle(want, t.unused, t.usage.Running())
	if t.idle == observe.IdleSoon {
		observe.WarnIdle(want, p.assignment)
	}
	k.expect(p, at)
}

// runIsOver reports whether no run can go on: the Pod is about to be removed.
func (p *pass) runIsOver() bool {
	return !p.assignment.DeletionTimestamp.IsZero() || mustNotRun(p)
}

// unseen returns for how long the desktop of an assignment that this process has not seen
// before was ready: it became ready while no agent ran, and no run was stored.
func (p *pass) unseen() time.Duration {
	if p.memory.time.observed || p.found.Pod == nil {
		return 0
	}
	ready := observe.PodCondition(p.found.Pod, corev1.PodReady).LastTransitionTime
	if ready.IsZero() {
		return 0
	}
	return p.now.Sub(ready.Time)
}

func (k *timekeeper) endRun(ctx context.Context, p *pass, at observe.Instant) {
	t := &p.memory.time
	k.Activity.Forget(client.ObjectKeyFromObject(p.assignment))
	t.idle, t.unused, t.reportedSilent = observe.IdleUnknown, observe.Use{}, false
	if !t.usage.Running() {
		return
	}
	if t.usage = t.usage.End(p.assignment, at); p.assignment.FailedPermanently() && p.assignment.Status.RunningSince == nil {
		// It ended when that was written.
		t.usage = observe.Recall(p.assignment, at)
	}
	log.FromContext(ctx).V(1).Info("The desktop's run is over", "timeUsed", string(api.DurationOf(t.usage.Elapsed(p.assignment, at))))
	if p.ending != nil && p.ending.Reason == api.ReasonTimeExpired {
		k.event(p.assignment, corev1.EventTypeWarning, api.EventExpired, p.ending.Message)
	}
}

// expect requeues the session for when its timeout is near, of which its user is warned
// once, and for when it has passed.
func (k *timekeeper) expect(p *pass, at observe.Instant) {
	t := &p.memory.time
	left, limited := t.usage.Left(p.assignment, at)
	if !limited || !t.usage.Running() {
		return
	}
	p.RequeueWithin(max(left, time.Millisecond))
	limit, _ := p.assignment.Spec.Timeout.Value()
	warnAt := left - api.WarnBefore(limit)
	if warnAt > 0 {
		p.RequeueWithin(warnAt)
		return
	}
	if t.warned != limit {
		t.warned = limit
		k.event(p.assignment, corev1.EventTypeWarning, api.EventExpiringSoon, fmt.Sprintf(
			"The timeout of %s ends the session soon: save your work, or raise spec.timeout.", p.assignment.Spec.Timeout))
	}
}
