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

// Activity asks desktops whether they are used; see activity.Asker.
type Activity interface {
	Watch(target activity.Target) activity.Word
	Forget(assignment types.NamespacedName)
}

// use is what a Pod's annotation says.
type use struct {
	// value of the annotation; told: there was one.
	value string
	told  bool
	// at is when it was first seen, by the process's clock.
	at time.Duration
	// fresh: this process has seen another value before. Its first may be old.
	fresh bool
}

// askActivity has the manager run the asker of desktops. The source has requests
// to look at a session of which it has heard something.
func (r *Reconciler) askActivity(mgr ctrl.Manager) (source.TypedSource[reconcile.Request], error) {
	options := r.Options.Activity
	if both, ok := r.Clock.(clock.Clock); ok && options.Clock == nil {
		// When a run began is told by the reconciler's.
		options.Clock = both
	}
	asker := activity.NewAsker(options)
	if err := mgr.Add(asker); err != nil {
		return nil, fmt.Errorf("adding the asker of desktops: %w", err)
	}
	r.Activity = asker
	return source.Channel(asker.Matters(), &handler.EnqueueRequestForObject{}), nil
}

// idle gives up a session that nobody uses for longer than it may be, and takes
// down since when nobody does. Where nobody knows whether it is used, it goes on.
func (k *timekeeper) idle(_ context.Context, p *pass) error {
	if p.failure != nil {
		return nil
	}
	at, t := k.instant(p), &p.memory.time
	limit, limited := observe.IdleLimit(p.assignment)
	if !t.usage.Running() || p.runIsOver() {
		k.stopAsking(client.ObjectKeyFromObject(p.assignment))
		t.idle, t.unused = observe.IdleUnknown, observe.Use{}
		return nil
	}
	before, silent := t.idle, false
	if p.assignment.Spec.Desktop.Activity.Path != "" {
		t.idle, t.unused, silent = k.asked(p, limit)
	} else {
		t.idle, t.unused, silent = k.annotated(p, limit, at)
	}
	switch {
	case t.idle == observe.IdleOver:
		p.failure = observe.IdleFailure(p.assignment)
	case t.idle == observe.IdleSoon && before != observe.IdleSoon:
		k.event(p.assignment, corev1.EventTypeWarning, api.EventExpiringSoon, fmt.Sprintf(
			"Nobody has used the desktop for long: it is ended after %s without use.", p.assignment.Spec.IdleTimeout))
	case silent && limited && !t.toldSilent:
		t.toldSilent = true
		k.event(p.assignment, corev1.EventTypeWarning, api.EventActivityUnknown, silence(p.assignment))
	}
	return nil
}

// silence says why an idle timeout is not enforced.
func silence(a *api.SessionAssignment) string {
	why := fmt.Sprintf("has never had the annotation %s", api.AnnotationActivity)
	if path := a.Spec.Desktop.Activity.Path; path != "" {
		why = fmt.Sprintf("does not answer %s with 200 and {\"idleSeconds\": n}", path)
	}
	return fmt.Sprintf("The desktop %s: its idle timeout of %s is not enforced.", why, a.Spec.IdleTimeout)
}

// asked is what a desktop answers. One that is not ready is not asked: it can't
// be used, and has its own time to become so again.
func (k *timekeeper) asked(p *pass, limit time.Duration) (idle observe.Idleness, unused observe.Use, silent bool) {
	pod := p.found.Pod
	url, ok := activity.URL(p.assignment, pod)
	if k.Activity == nil || !ok || pod.DeletionTimestamp != nil || observe.Pod(p.assignment, p.found).Status != "True" {
		k.stopAsking(client.ObjectKeyFromObject(p.assignment))
		return observe.IdleUnknown, observe.Use{}, false
	}
	word := k.Activity.Watch(activity.Target{
		Assignment: client.ObjectKeyFromObject(p.assignment),
		UID:        p.assignment.UID,
		URL:        url,
		Limit:      limit,
		Began:      p.memory.time.seen.Add(p.memory.time.usage.Began()),
	})
	return word.Idle, word.Use, word.Silent
}

// annotated is what the annotation of a desktop says: each new value is use of
// it at the time when this process first saw it.
func (k *timekeeper) annotated(p *pass, limit time.Duration, at observe.Instant) (idle observe.Idleness, unused observe.Use, silent bool) {
	t := &p.memory.time
	if p.found.Pod != nil {
		value, told := p.found.Pod.Annotations[api.AnnotationActivity]
		if told && (!t.use.told || value != t.use.value) {
			t.use = use{value: value, told: true, at: at.Process, fresh: t.use.told}
		}
	}
	passed := t.usage.Run(at)
	if t.use.told {
		passed = min(passed, at.Process-t.use.at)
	}
	p.RequeueWithin(limit - passed)
	if !t.use.told {
		return observe.IdleUnknown, observe.Use{}, passed >= limit
	}
	p.RequeueWithin(limit - api.WarnBefore(limit) - passed)
	return observe.IdlenessOf(passed, limit), k.unused(p, passed), false
}

// unused is what is known of the use of a desktop that tells by an annotation.
// What an earlier process has written stands until there is a new value: the
// first that this one sees may be as old as that.
func (k *timekeeper) unused(p *pass, passed time.Duration) observe.Use {
	after, fresh := k.Options.Activity.Idle(), p.memory.time.use.fresh
	p.RequeueWithin(after - passed)
	switch {
	case !fresh && (p.assignment.Status.IdleSince != nil || passed < after):
		return observe.Use{}
	case passed < after:
		return observe.Use{Known: true}
	}
	return observe.Use{Known: true, Since: p.now.Add(-passed)}
}

func (k *timekeeper) stopAsking(assignment types.NamespacedName) {
	if k.Activity != nil {
		k.Activity.Forget(assignment)
	}
}
