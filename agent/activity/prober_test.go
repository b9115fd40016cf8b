package activity

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
)

// fixture is a prober whose clock the test moves, and one desktop that answers as
// the test sets.
type fixture struct {
	*Prober
	t     *testing.T
	clock *testclock.FakeClock
	// body of the desktop's answers, and how often it was queried.
	body    atomic.Value
	queries atomic.Int64
	url     string
}

const half = 30 * time.Minute

func newFixture(t *testing.T, o Options) *fixture {
	t.Helper()
	r := &fixture{t: t, clock: testclock.NewFakeClock(noon)}
	if o.Clock == nil {
		o.Clock = r.clock
	}
	r.Prober = NewProber(o)
	r.body.Store(`{"idleSeconds": 0}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.queries.Add(1)
		_, _ = fmt.Fprint(w, r.body.Load())
	}))
	r.url = server.URL
	t.Cleanup(server.Close)
	r.start()
	return r
}

// start the prober, and stop it after the test.
func (r *fixture) start() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Start(ctx) }()
	r.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

func (r *fixture) target(name string) Target {
	return Target{Assignment: types.NamespacedName{Namespace: "desktops", Name: name}, UID: types.UID(name), URL: r.url, Limit: half, Began: noon}
}

// step advances time. It wakes the queue, whose timer may be about to be set.
func (r *fixture) step(d time.Duration) {
	r.clock.Step(d)
	r.queue.AddAfter(types.NamespacedName{}, 1)
}

// received waits until the result of the current probe was recorded: then the clock may be
// stepped.
func (r *fixture) received(target Target) {
	r.t.Helper()
	NewWithT(r.t).Eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.desktops[target.Assignment].due.After(r.clock.Now())
	}, "5s").Should(BeTrue())
}

// answered receives the next result, and compares it, except for the time of the last use.
func (r *fixture) answered(target Target, want Result) {
	r.t.Helper()
	g := NewWithT(r.t)
	g.Eventually(r.Changes(), "5s").Should(Receive(WithTransform(
		func(e event.GenericEvent) string { return e.Object.GetName() }, Equal(target.Assignment.Name))))
	result := r.Watch(target)
	g.Expect(result.Use.Known).To(BeTrue())
	result.Use = want.Use
	g.Expect(result).To(Equal(want))
}

// gauge is a value of the agent's metrics.
func gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestADesktopIsQueriedOnlyWhenItMatters(t *testing.T) {
	r, g := newFixture(t, Options{}), NewWithT(t)
	a := r.target("a")
	g.Expect(r.Watch(a)).To(Equal(Result{}))
	r.step(5*time.Minute - time.Second)
	g.Consistently(r.queries.Load, "100ms").Should(BeZero())
	r.step(time.Second)
	r.answered(a, Result{Idle: observe.InUse})
	g.Expect(r.queries.Load()).To(BeEquivalentTo(1))

	r.body.Store(`{"idleSeconds": 1500}`)
	r.step(25 * time.Minute)
	r.answered(a, Result{Idle: observe.IdleSoon})
	r.body.Store(`{"idleSeconds": 1650}`)
	r.step(150 * time.Second)
	r.received(a)
	g.Expect(r.queries.Load()).To(BeEquivalentTo(3))
	r.body.Store(`{"idleSeconds": 1800}`)
	r.step(150 * time.Second)
	r.answered(a, Result{Idle: observe.IdleOver})
}

func TestADesktopThatHasRunForLongIsQueriedAtOnce(t *testing.T) {
	r := newFixture(t, Options{})
	r.body.Store(`{"idleSeconds": 1800}`)
	a := r.target("a")
	a.Began = noon.Add(-time.Hour)
	r.Watch(a)
	r.answered(a, Result{Idle: observe.IdleOver})
}

func TestTheProberRunsWithoutEvents(t *testing.T) {
	r := newFixture(t, Options{Clock: clock.RealClock{}})
	a := r.target("a")
	a.Limit, a.Began = time.Second, time.Now()
	r.Watch(a)
	r.answered(a, Result{Idle: observe.InUse})
	r.body.Store(`{"idleSeconds": 10}`)
	r.answered(a, Result{Idle: observe.IdleOver})
}

func TestAForgottenDesktopIsNotQueried(t *testing.T) {
	r, g := newFixture(t, Options{}), NewWithT(t)
	before := gauge(t, "vdi_agent_activity_watched")
	a := r.target("a")
	r.Watch(a)
	r.Watch(a)
	g.Expect(gauge(t, "vdi_agent_activity_watched")).To(Equal(before + 1))
	r.Forget(a.Assignment)
	r.Forget(a.Assignment)
	g.Expect(gauge(t, "vdi_agent_activity_watched")).To(Equal(before))
	r.step(time.Hour)
	g.Consistently(r.queries.Load, "100ms").Should(BeZero())
}

func TestADesktopThatDoesNotAnswerIsCountedUntilItDoes(t *testing.T) {
	r, g := newFixture(t, Options{}), NewWithT(t)
	before := gauge(t, "vdi_agent_activity_unknown")
	r.body.Store(`busy`)
	a := r.target("a")
	a.Began = noon.Add(-time.Hour)
	r.Watch(a)
	for i := range 2 {
		r.received(a)
		r.step(time.Duration(i+1) * time.Second)
	}
	r.answered(a, Result{Silent: true})
	g.Expect(gauge(t, "vdi_agent_activity_unknown")).To(Equal(before + 1))
	r.body.Store(`{"idleSeconds": 0}`)
	r.step(4 * time.Second)
	r.answered(a, Result{Idle: observe.InUse})
	g.Expect(gauge(t, "vdi_agent_activity_unknown")).To(Equal(before))
}

func TestSlowDesktopsDoNotDelayOthersForLong(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	defer slow.Close()
	r, queries := newFixture(t, Options{Concurrent: 4, Timeout: 50 * time.Millisecond}), &concurrency{}
	queries.next, r.client.Transport = r.client.Transport, queries
	for i := range 12 {
		a := r.target(fmt.Sprintf("slow-%d", i))
		a.URL, a.Began = slow.URL, noon.Add(-time.Hour)
		r.Watch(a)
	}
	quick := r.target("quick")
	quick.Began = noon.Add(-time.Hour)
	r.Watch(quick)
	r.answered(quick, Result{Idle: observe.InUse})
	if most := queries.most.Load(); most > 4 {
		t.Errorf("%d were queried at once", most)
	}
}

// concurrency counts how many queries are on their way at once.
type concurrency struct {
	next      http.RoundTripper
	now, most atomic.Int64
}

func (q *concurrency) RoundTrip(request *http.Request) (*http.Response, error) {
	n := q.now.Add(1)
	defer q.now.Add(-1)
	for m := q.most.Load(); n > m && !q.most.CompareAndSwap(m, n); m = q.most.Load() {
	}
	return q.next.RoundTrip(request)
}

func TestUnreadAnswersDoNotPileUp(t *testing.T) {
	r, g := newFixture(t, Options{Concurrent: 2}), NewWithT(t)
	for i := range 10 {
		a := r.target(fmt.Sprint(i))
		a.Began = noon.Add(-time.Hour)
		r.Watch(a)
	}
	g.Eventually(r.queries.Load).Should(BeEquivalentTo(2))
	g.Consistently(r.queries.Load, "100ms").Should(BeEquivalentTo(2))
	for range 10 {
		g.Eventually(r.Changes()).Should(Receive())
	}
	g.Expect(r.queries.Load()).To(BeEquivalentTo(10))
}

func TestAnAnswerOfAnEarlierRunIsIgnored(t *testing.T) {
	g := NewWithT(t)
	queried, answer := make(chan struct{}, 10), make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		queried <- struct{}{}
		_, _ = fmt.Fprint(w, <-answer)
	}))
	defer server.Close()
	defer close(answer)
	r := newFixture(t, Options{})
	a := r.target("a")
	a.URL, a.Began = server.URL, noon.Add(-time.Hour)
	r.Watch(a)
	g.Eventually(queried).Should(Receive())
	a.Began = noon.Add(-40 * time.Minute)
	g.Expect(r.Watch(a)).To(Equal(Result{}))
	answer <- `{"idleSeconds": 3600}`
	g.Eventually(queried).Should(Receive(), "it is not queried again")
	g.Expect(r.Watch(a)).To(Equal(Result{}))
	answer <- `{"idleSeconds": 0}`
	r.answered(a, Result{Idle: observe.InUse})
}
