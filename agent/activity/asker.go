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

// idleLoop is how long the asker sleeps at the most while nobody is due.
const idleLoop = time.Hour

// Asker asks desktops whether they are used, when the answer could matter.
// Watch and Forget may be called by anyone at any time; nothing is asked before
// Start.
type Asker struct {
	options Options
	client  *http.Client
	// matters has the assignments of which something was heard that matters.
	matters chan event.GenericEvent
	// woken: what is due may have changed.
	woken chan struct{}

	mu       sync.Mutex
	desktops map[types.NamespacedName]*desktop
	// asking is how many questions are on their way.
	asking int
	wait   sync.WaitGroup
}

// NewAsker makes one that watches no desktop yet.
func NewAsker(options Options) *Asker {
	options = options.withDefaults()
	return &Asker{
		options:  options,
		client:   newClient(options.Patience),
		matters:  make(chan event.GenericEvent),
		woken:    make(chan struct{}, 1),
		desktops: map[types.NamespacedName]*desktop{},
	}
}

// Matters has an event for an assignment whenever something was heard of its
// desktop that may change what its session is to do.
func (k *Asker) Matters() <-chan event.GenericEvent { return k.matters }

// Watch sees to it that a desktop is asked when it is time, and returns what is
// known of it. To watch what is watched changes nothing.
func (k *Asker) Watch(target Target) Word {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.desktops[target.Assignment]
	if d == nil {
		d = &desktop{}
		k.desktops[target.Assignment] = d
		watched.Inc()
	}
	before := d.word
	if d.retarget(target, k.options) {
		count(before, d.word)
		k.wake()
	}
	return d.word
}

// Forget the desktop of an assignment: it is not asked any more.
func (k *Asker) Forget(assignment types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.desktops[assignment]; d != nil {
		count(d.word, Word{})
		delete(k.desktops, assignment)
		watched.Dec()
	}
}

// Start asks until the context ends.
func (k *Asker) Start(ctx context.Context) error {
	defer k.wait.Wait()
	for {
		timer := k.options.Clock.NewTimer(k.askDue(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-k.woken:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// askDue begins to ask those that are due, as many as may be asked at once, and
// returns how long nobody else will be. An answer wakes the loop before that.
func (k *Asker) askDue(ctx context.Context) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, sleep := k.options.Clock.Now(), idleLoop
	for _, d := range k.desktops {
		switch due := d.due.Sub(now); {
		case d.asking:
		case due > 0:
			sleep = min(sleep, due)
		case k.asking < k.options.Concurrent:
			d.asking = true
			k.asking++
			k.wait.Add(1)
			go k.question(ctx, d.target)
		}
	}
	return sleep
}

// question asks one desktop, and tells its session if the answer matters.
func (k *Asker) question(ctx context.Context, target Target) {
	defer k.done()
	begun := k.options.Clock.Now()
	idle, err := ask(ctx, k.client, target.URL)
	if !k.hear(ctx, target, idle, err, begun) {
		return
	}
	about := &api.SessionAssignment{}
	about.Namespace, about.Name = target.Assignment.Namespace, target.Assignment.Name
	select {
	case k.matters <- event.GenericEvent{Object: about}:
	case <-ctx.Done():
	}
}

// done ends a question. Until its answer was told it counts as one, so that
// answers that nobody takes never pile up.
func (k *Asker) done() {
	k.mu.Lock()
	k.asking--
	k.mu.Unlock()
	k.wake()
	k.wait.Done()
}

// hear takes an answer, unless nobody waits for it any more.
func (k *Asker) hear(ctx context.Context, target Target, idle time.Duration, err error, begun time.Time) (matters bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.desktops[target.Assignment]
	if d == nil {
		return false
	}
	d.asking = false
	if d.target != target || ctx.Err() != nil {
		return false
	}
	now, before := k.options.Clock.Now(), d.word
	defer func() { count(before, d.word) }()
	result := "known"
	if err != nil {
		result = "unknown"
	}
	answers.WithLabelValues(result).Observe(now.Sub(begun).Seconds())
	if err != nil {
		log.FromContext(ctx).V(1).Info("A desktop does not tell whether it is used",
			"assignment", target.Assignment, "unknowns", d.unknowns+1, "reason", err.Error())
		return d.hearsNothing(k.options, now)
	}
	return d.hears(idle, k.options, now)
}

func (k *Asker) wake() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// count keeps the metric of silent desktops.
func count(before, after Word) {
	switch {
	case !before.Silent && after.Silent:
		silent.Inc()
	case before.Silent && !after.Silent:
		silent.Dec()
	}
}
