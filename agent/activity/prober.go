package activity

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// idleLoop is how long the prober sleeps at most while no probe is due.
const idleLoop = time.Hour

// Prober probes desktops for user activity, when the result could matter. Watch and
// Forget may be called by any goroutine at any time. Nothing is probed before Start.
type Prober struct {
	options Options
	client  *http.Client
	// changes has the assignments with a result that matters.
	changes chan event.GenericEvent
	// woken has an item if the next probe that is due may have changed.
	woken chan struct{}

	mu       sync.Mutex
	desktops map[types.NamespacedName]*desktop
	// probing is how many probes are under way.
	probing int
	wait    sync.WaitGroup
}

// NewProber returns a Prober without desktops.
func NewProber(options Options) *Prober {
	options = options.withDefaults()
	return &Prober{
		options:  options,
		client:   newClient(options.Timeout),
		changes:  make(chan event.GenericEvent),
		woken:    make(chan struct{}, 1),
		desktops: map[types.NamespacedName]*desktop{},
	}
}

// Changes returns a channel with an event for an assignment whenever a result of its
// desktop may change what its session is to do.
func (p *Prober) Changes() <-chan event.GenericEvent { return p.changes }

// Watch has a desktop probed when it is due, and returns its state. To watch it again
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
		p.wake()
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

// Start probes until the context ends.
func (p *Prober) Start(ctx context.Context) error {
	defer p.wait.Wait()
	for {
		timer := p.options.Clock.NewTimer(p.probeDue(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-p.woken:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// probeDue begins the probes that are due, as many as may run at once, and returns how long
// no other will be. A result wakes the loop before that.
func (p *Prober) probeDue(ctx context.Context) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, sleep := p.options.Clock.Now(), idleLoop
	for _, d := range p.desktops {
		switch due := d.due.Sub(now); {
		case d.probing:
		case due > 0:
			sleep = min(sleep, due)
		case p.probing < p.options.Concurrent:
			d.probing = true
			p.probing++
			p.wait.Add(1)
			go p.probe(ctx, d.target)
		}
	}
	return sleep
}

// probe probes one desktop, and requeues its session if the result matters.
func (p *Prober) probe(ctx context.Context, target Target) {
	defer p.done()
	begun := p.options.Clock.Now()
	idle, err := ask(ctx, p.client, target.URL)
	if !p.receive(ctx, target, idle, err, begun) {
		return
	}
	about := &api.SessionAssignment{}
	about.Namespace, about.Name = target.Assignment.Namespace, target.Assignment.Name
	select {
	case p.changes <- event.GenericEvent{Object: about}:
	case <-ctx.Done():
	}
}

// done ends a probe. It counts until its event was received, so that events never pile
// up.
func (p *Prober) done() {
	p.mu.Lock()
	p.probing--
	p.mu.Unlock()
	p.wake()
	p.wait.Done()
}

// receive takes a result, unless it is of no use any more.
func (p *Prober) receive(ctx context.Context, target Target, idle time.Duration, err error, begun time.Time) (matters bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.desktops[target.Assignment]
	if d == nil {
		return false
	}
	d.probing = false
	if d.target != target || ctx.Err() != nil {
		return false
	}
	now, before := p.options.Clock.Now(), d.result
	defer func() { count(before, d.result) }()
	outcome := "known"
	if err != nil {
		outcome = "unknown"
	}
	answers.WithLabelValues(outcome).Observe(now.Sub(begun).Seconds())
	if err != nil {
		log.FromContext(ctx).V(1).Info("A desktop does not report whether it is used",
			"assignment", target.Assignment, "unknowns", d.unknowns+1, "reason", err.Error())
		return d.failed(p.options, now)
	}
	return d.answered(idle, p.options, now)
}

func (p *Prober) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
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
