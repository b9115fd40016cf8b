package session

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// limited is a desktop with limits.
func limited(timeout, idle api.Duration) *api.SessionAssignment {
	a := desktop()
	a.Spec.Timeout, a.Spec.IdleTimeout = timeout, idle
	return a
}

// begin a run: the desktop is made and becomes ready.
func (s *stage) begin() time.Duration {
	s.t.Helper()
	s.pass()
	s.bind()
	s.setPod(makeReady)
	s.pass()
	return s.pass()
}

// order changes the hub's order, and reconciles.
func (s *stage) order(change func(*api.SessionAssignmentSpec)) {
	s.t.Helper()
	a := s.assignment()
	change(&a.Spec)
	if err := s.client.Update(context.Background(), a); err != nil {
		s.t.Fatal(err)
	}
	s.pass()
	s.pass()
}

// annotate the Pod, and reconcile.
func (s *stage) annotate(value string) {
	s.t.Helper()
	var p corev1.Pod
	s.get(&p)
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, api.AnnotationActivity, value)
	if err := s.client.Update(context.Background(), &p); err != nil {
		s.t.Fatal(err)
	}
	s.pass()
}

// restart drops all state of the process.
func (s *stage) restart() { s.r.memories.Clear() }

// eventCount returns the number of events of a reason since its last call.
func (s *stage) eventCount(reason string) int {
	n := 0
	for len(s.events.Events) > 0 {
		if e := <-s.events.Events; strings.Contains(e, " "+reason+" ") {
			n++
		}
	}
	return n
}

func (s *stage) used(want api.Duration) {
	s.t.Helper()
	if got := s.assignment().Status; got.RunningSince != nil || got.TimeUsed != want {
		s.t.Errorf("running since %v, used %q, want no run and %q", got.RunningSince, got.TimeUsed, want)
	}
}

func (s *stage) runs(since time.Time) {
	s.t.Helper()
	switch got := s.assignment().Status.RunningSince; {
	case s.gone(&corev1.Pod{}):
		s.t.Error("there is no Pod")
	case got == nil || !got.Time.Equal(since):
		s.t.Errorf("running since %v, want %s", got, since)
	}
}

func TestADesktopEndsWhenItsTimeIsOver(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	if wait := s.begin(); wait != 55*time.Minute {
		t.Errorf("reconciles again after %s, want 55m, when a warning is due", wait)
	}
	s.runs(noon)
	if wait := s.after(55 * time.Minute); wait != 5*time.Minute {
		t.Errorf("reconciles again after %s, want 5m", wait)
	}
	s.after(time.Minute)
	if got := s.eventCount(api.EventExpiringSoon); got != 1 {
		t.Errorf("warned %d times", got)
	}
	s.after(4*time.Minute - time.Second)
	s.runs(noon)
	s.wrote()

	s.after(time.Second)
	if !s.gone(&corev1.Pod{}) {
		t.Error("the Pod is still there")
	}
	s.pass()
	s.used("1h0m0s")
	if c := s.condition(api.ConditionPodReady); c.Reason != api.ReasonTimeExpired || !strings.Contains(c.Message, "spec.timeout") {
		t.Errorf("PodReady is %+v", c)
	}
	if got := s.eventCount(api.EventExpired); got != 1 {
		t.Errorf("%d events that it expired", got)
	}
	s.wrote()
	s.after(time.Hour)
	s.after(time.Hour)
	if got := s.wrote(); len(got) != 0 {
		t.Errorf("it does not stop: %v", got)
	}
	if s.assignment().Status.Failure != nil {
		t.Error("to expire is no failure")
	}
}

func TestAnExtensionResumesAnExpiredSession(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	s.begin()
	s.after(time.Hour)
	s.pass()
	s.used("1h0m0s")
	s.restart()
	s.after(10 * time.Hour)
	s.used("1h0m0s")

	s.order(func(spec *api.SessionAssignmentSpec) { spec.Timeout = "90m" })
	s.begin()
	s.runs(noon.Add(11 * time.Hour))
	s.after(30*time.Minute - time.Second)
	s.runs(noon.Add(11 * time.Hour))
	s.after(time.Second)
	s.pass()
	s.used("1h30m0s")
}

func TestAnExtensionInTimeWarnsAgain(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	s.begin()
	s.after(56 * time.Minute)
	s.order(func(spec *api.SessionAssignmentSpec) { spec.Timeout = "2h" })
	if got := s.eventCount(api.EventExpiringSoon); got != 1 {
		t.Errorf("warned %d times", got)
	}
	s.after(59 * time.Minute)
	s.runs(noon)
	if got := s.eventCount(api.EventExpiringSoon); got != 1 {
		t.Errorf("under the new limit warned %d times", got)
	}
}

func TestWithoutATimeoutItRunsForEver(t *testing.T) {
	for _, timeout := range []api.Duration{"", "0s", "8 hours"} {
		s := newStage(t, limited(timeout, ""))
		if wait := s.begin(); wait != 0 {
			t.Errorf("%q: reconciles again after %s", timeout, wait)
		}
		s.after(10000 * time.Hour)
		s.runs(noon)
	}
}

func TestTimeUsedElsewhereCounts(t *testing.T) {
	a := limited("1h", "")
	a.Spec.TimeUsed = "50m"
	s := newStage(t, a)
	s.begin()
	s.after(10*time.Minute - time.Second)
	s.runs(noon)
	s.after(time.Second)
	s.pass()
	s.used("1h0m0s")
}

func TestASuspensionStopsTheClock(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	s.begin()
	s.after(20 * time.Minute)
	s.order(func(spec *api.SessionAssignmentSpec) { spec.RunState = api.ModeSuspended })
	s.used("20m0s")
	s.after(24 * time.Hour)
	s.used("20m0s")
	// The hub counts that run by its own clock.
	s.order(func(spec *api.SessionAssignmentSpec) { spec.RunState, spec.TimeUsed = api.ModeRunning, "20m3s" })
	s.begin()
	again := noon.Add(24*time.Hour + 20*time.Minute)
	s.after(40*time.Minute - 4*time.Second)
	s.runs(again)
	s.after(time.Second)
	s.pass()
	s.used("1h0m0s")
}

func TestTheEndOfARunIsWrittenAtOnce(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	s.begin()
	s.after(time.Second)
	a := s.assignment()
	a.Spec.RunState = api.ModeSuspended
	if err := s.client.Update(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	s.pass()
	s.used("1s")
}

func TestAnotherPodIsTheSameRun(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	s.begin()
	s.after(10 * time.Minute)
	var pod corev1.Pod
	s.get(&pod)
	if err := s.client.Delete(context.Background(), &pod); err != nil {
		t.Fatal(err)
	}
	s.after(10 * time.Minute)
	s.begin()
	s.runs(noon)
	s.after(40 * time.Minute)
	s.pass()
	s.used("1h0m0s")
}

func TestAnAgentThatWasAwayNeitherLengthensNorShortens(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	s.begin()
	s.wrote()
	for range 5 {
		s.restart()
		s.after(10 * time.Minute)
	}
	if got := s.wrote(); len(got) != 0 {
		t.Errorf("the restarts cost %v", got)
	}
	s.restart()
	s.after(10*time.Minute - time.Second)
	s.runs(noon)
	s.after(time.Second)
	s.pass()
	s.used("1h0m0s")
}

func TestADesktopThatBecameReadyUnobservedRunsSinceThen(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	s.pass()
	s.restart()
	s.bind()
	s.setPod(func(p *corev1.Pod) {
		makeReady(p)
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(10 * time.Minute))
	})
	s.after(30 * time.Minute)
	s.runs(noon.Add(10 * time.Minute))
	s.after(40 * time.Minute)
	s.pass()
	s.used("1h0m0s")
}

func TestADeletionEndsTheRun(t *testing.T) {
	s := newStage(t, limited("1h", ""))
	s.begin()
	s.after(10 * time.Minute)
	// Its Pod takes its time.
	var pod corev1.Pod
	s.get(&pod)
	pod.Finalizers = []string{"test/slow"}
	if err := s.client.Update(context.Background(), &pod); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(context.Background(), s.assignment()); err != nil {
		t.Fatal(err)
	}
	s.pass()
	s.after(time.Minute)
	s.used("10m0s")
}

// settable is a clock that may be set, as a member's may be: time since
// what it has shown is not changed by that.
type settable struct {
	real, set time.Duration
	mu        sync.Mutex // of shown
	shown     map[time.Time]time.Duration
}

func (c *settable) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := noon.Add(c.real + c.set)
	if c.shown == nil {
		c.shown = map[time.Time]time.Duration{}
	}
	c.shown[now] = c.real
	return now
}

func (c *settable) Since(t time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real - c.shown[t]
}

func TestAClockThatIsSetChangesNoSession(t *testing.T) {
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		s, clock := newStage(t, limited("1h", "")), &settable{}
		s.r.Clock = clock
		s.begin()
		clock.real, clock.set = 30*time.Minute, jump
		s.pass()
		s.wrote()
		s.pass()
		if got := s.wrote(); len(got) != 0 {
			t.Errorf("set by %s, it does not stop: %v", jump, got)
		}
		clock.real = 50 * time.Minute
		s.restart()
		s.pass()
		clock.real = time.Hour - time.Second
		s.pass()
		if s.gone(&corev1.Pod{}) {
			t.Errorf("set by %s, it ended too soon", jump)
		}
		clock.real = time.Hour
		s.pass()
		s.pass()
		s.used("1h0m0s")
	}
}
