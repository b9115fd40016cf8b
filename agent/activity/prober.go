package activity

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Prober probes desktops for user activity when the result can matter. Watch and
// Forget may be called by any goroutine at any time. Nothing is probed before Start.
type Prober struct {
	options Options
	client  *http.Client
	// changes receives the assignments with a result that matters.
	changes chan event.GenericEvent
	// queue holds each desktop until its next probe is due.
	queue workqueue.TypedDelayingInterface[types.NamespacedName]

	mu       sync.Mutex
	desktops map[types.NamespacedName]*desktop
}

// NewProber returns a Prober without desktops.
func NewProber(options Options) *Prober {
	options = options.withDefaults()
	return &Prober{
		options: options,
		client:  newClient(options.Timeout),
		changes: make(chan event.GenericEvent),
		queue: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[types.NamespacedName]{Clock: options.Clock}),
		desktops: map[types.NamespacedName]*desktop{},
	}
}

// Changes returns a channel with an event for each assignment whose probe result may
// affect its session.
func (p *Prober) Changes() <-chan event.GenericEvent { return p.changes }

// Watch schedules the probes of a desktop, and returns its last result. Repeating it
// changes nothing.
func (p *Prober) Watch(target Target) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.desktops[target.Assignment]
	if d == nil {
		d = &desktop{}
		p.desktops[target.Assignment] = d
		watched.Inc()
	}
	before := d.result
	if d.retarget(target, p.options) {
		count(before, d.result)
		p.enqueue(d)
	}
	return d.result
}

// Forget ends the probes of the desktop of an assignment.
func (p *Prober) Forget(assignment types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.desktops[assignment]; d != nil {
		count(d.result, Result{})
		delete(p.desktops, assignment)
		watched.Dec()
	}
}

// enqueue queues a desktop for its next probe. It is called with the lock held.
func (p *Prober) enqueue(d *desktop) {
	p.queue.AddAfter(d.target.Assignment, d.due.Sub(p.options.Clock.Now()))
}

// Start probes until the context ends.
func (p *Prober) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for range p.options.Concurrent {
		workers.Go(func() {
			for p.probeNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	workers.Wait()
	return nil
}

// probeNext probes the next desktop that is due, and requeues its session if the result
// matters. It waits until that event was received, so that events never pile up. It
// returns false once the queue is shut down.
func (p *Prober) probeNext(ctx context.Context) bool {
	assignment, shutdown := p.queue.Get()
	if shutdown {
		return false
	}
	defer p.queue.Done(assignment)
	target, due := p.dueTarget(assignment)
	if !due {
		return true
	}
	begun := p.options.Clock.Now()
	idle, err := fetchIdle(ctx, p.client, target.URL)
	if !p.receive(ctx, target, idle, err, begun) {
		return true
	}
	assignmentObject := &api.SessionAssignment{}
	assignmentObject.Namespace, assignmentObject.Name = assignment.Namespace, assignment.Name
	select {
	case p.changes <- event.GenericEvent{Object: assignmentObject}:
	case <-ctx.Done():
	}
	return true
}

// dueTarget returns the target of a desktop, and false if it was forgotten or is due
// later.
func (p *Prober) dueTarget(assignment types.NamespacedName) (Target, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.desktops[assignment]
	if d == nil {
		return Target{}, false
	}
	if d.due.After(p.options.Clock.Now()) {
		p.enqueue(d)
		return Target{}, false
	}
	return d.target, true
}

// receive records a result, unless its target has changed or was forgotten.
func (p *Prober) receive(ctx context.Context, target Target, idle time.Duration, err error, begun time.Time) (matters bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.desktops[target.Assignment]
	if d == nil || d.target != target || ctx.Err() != nil {
		return false
	}
	now, before := p.options.Clock.Now(), d.result
	defer func() {
		count(before, d.result)
		p.enqueue(d)
	}()
	outcome := "known"
	if err != nil {
		outcome = "unknown"
	}
	answers.WithLabelValues(outcome).Observe(now.Sub(begun).Seconds())
	if err != nil {
		log.FromContext(ctx).V(1).Info("Activity probe failed",
			"assignment", target.Assignment, "unknowns", d.unknowns+1, "reason", err.Error())
		return d.failed(p.options, now)
	}
	return d.answered(idle, p.options, now)
}

// count updates the metric of silent desktops.
func count(before, after Result) {
	switch {
	case !before.Silent && after.Silent:
		silent.Inc()
	case before.Silent && !after.Silent:
		silent.Dec()
	}
}
