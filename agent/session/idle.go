package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/agent/activity"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Activity probes desktops for user activity: see activity.Prober.
type Activity interface {
	Watch(target activity.Target) activity.Result
	Forget(assignment types.NamespacedName)
}

// annotatedUse is the last value of a Pod's activity annotation.
type annotatedUse struct {
	// value of the annotation, and whether there was one.
	value    string
	reported bool
	// at is when it was first seen, by the process's clock.
	at time.Duration
	// fresh is set once this process has seen a change: the first value may be old.
	fresh bool
}

// probeActivity adds the prober of desktops to the manager. The source enqueues a session when
// a result may affect it.
func (r *Reconciler) probeActivity(mgr ctrl.Manager) (source.TypedSource[reconcile.Request], error) {
	options := r.Options.Activity
	if ticking, ok := r.Clock.(clock.WithTicker); ok && options.Clock == nil {
		// Runs begin by the reconciler's clock.
		options.Clock = ticking
	}
	prober := activity.NewProber(options)
	if err := mgr.Add(prober); err != nil {
		return nil, fmt.Errorf("adding the prober of desktops: %w", err)
	}
	r.Activity = prober
	return source.Channel(prober.Changes(), &handler.EnqueueRequestForObject{}), nil
}

// idle fails a session that was idle for its idle timeout, and records since when it is idle.
// A session whose activity is not known goes on.
func (d *Dependencies) idle(_ context.Context, p *pass) error {
	if p.failure != nil {
		return nil
	}
	at, t := p.at, &p.memory.time
	limit, limited := observe.LimitOf(p.Assignment.Spec.IdleTimeout)
	if !t.usage.Running || mustNotRun(p) {
		t.activity = d.noActivity(p)
		return nil
	}
	before := t.activity.Idle
	if p.Assignment.Spec.Desktop.Activity.Path != "" {
		t.activity = d.probed(p, limit)
	} else {
		t.activity = d.annotated(p, limit, at)
	}
	switch {
	case t.activity.Idle == observe.IdleOver:
		p.failure = observe.IdleFailure(p.Assignment)
	case t.activity.Idle == observe.IdleSoon && before != observe.IdleSoon:
		d.event(p.Assignment, corev1.EventTypeWarning, api.EventExpiringSoon, fmt.Sprintf(
			observe.IdleWarning, p.Assignment.Spec.IdleTimeout))
	case t.activity.Silent && limited && !t.reportedSilent:
		t.reportedSilent = true
		d.event(p.Assignment, corev1.EventTypeWarning, api.EventActivityUnknown, notEnforcedNote(p.Assignment))
	}
	return nil
}

// notEnforcedNote explains why an idle timeout is not enforced.
func notEnforcedNote(a *api.SessionAssignment) string {
	reason := fmt.Sprintf("has never had the annotation %s", api.AnnotationActivity)
	if path := a.Spec.Desktop.Activity.Path; path != "" {
		reason = fmt.Sprintf("does not answer %s with 200 and {\"idleSeconds\": n}", path)
	}
	return fmt.Sprintf("The desktop %s: its idle timeout of %s is not enforced.", reason, a.Spec.IdleTimeout)
}

// noActivity ends the probes of a desktop, and returns no result.
func (d *Dependencies) noActivity(p *pass) activity.Result {
	d.Activity.Forget(client.ObjectKeyFromObject(p.Assignment))
	return activity.Result{}
}

// probed returns the last probe result of a desktop. One that is not ready is not probed.
func (d *Dependencies) probed(p *pass, limit time.Duration) activity.Result {
	pod, t := p.Found.Pod, &p.memory.time
	url, ok := activity.URL(p.Assignment, pod)
	if !ok || pod.DeletionTimestamp != nil || observe.Pod(p.Assignment, p.Found).Status != "True" {
		return d.noActivity(p)
	}
	return d.Activity.Watch(activity.Target{
		Assignment: client.ObjectKeyFromObject(p.Assignment),
		UID:        p.Assignment.UID,
		URL:        url,
		Limit:      limit,
		Began:      t.seen.Add(t.usage.Began),
	})
}

// annotated returns the result of a desktop's annotation, of which each new value means use at
// the time when this process first saw it.
func (d *Dependencies) annotated(p *pass, limit time.Duration, at observe.Instant) activity.Result {
	t := &p.memory.time
	if p.Found.Pod != nil {
		value, reported := p.Found.Pod.Annotations[api.AnnotationActivity]
		if reported && (!t.use.reported || value != t.use.value) {
			t.use = annotatedUse{value: value, reported: true, at: at.Process, fresh: t.use.reported}
		}
	}
	passed := t.usage.Run(at)
	if t.use.reported {
		passed = min(passed, at.Process-t.use.at)
	}
	p.RequeueWithin(limit - passed)
	if !t.use.reported {
		return activity.Result{Silent: passed >= limit}
	}
	p.RequeueWithin(limit - api.WarnBefore(limit) - passed)
	return activity.Result{Idle: observe.IdlenessOf(passed, limit), Use: d.annotatedLastUse(p, passed)}
}

// annotatedLastUse returns the use of a desktop that reports by annotation. The status of an
// earlier process is kept until there is a new value: the first that this process sees may be
// as old.
func (d *Dependencies) annotatedLastUse(p *pass, passed time.Duration) observe.Use {
	after, fresh := d.Options.Activity.Idle(), p.memory.time.use.fresh
	p.RequeueWithin(after - passed)
	switch {
	case !fresh && (p.Assignment.Status.IdleSince != nil || passed < after):
		return observe.Use{}
	case passed < after:
		return observe.Use{Known: true}
	}
	return observe.Use{Known: true, Since: p.Now.Add(-passed)}
}
