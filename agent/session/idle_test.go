package session

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/activity"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func (s *stage) podReady(reason string) {
	s.t.Helper()
	if c := s.condition(api.ConditionPodReady); c.Reason != reason || c.Status != "True" {
		s.t.Errorf("PodReady is %s, %s, want True, %s", c.Status, c.Reason, reason)
	}
}

func (s *stage) failed(want bool) {
	s.t.Helper()
	f := s.assignment().Status.Failure
	if got := f != nil && f.Reason == api.ReasonIdleExpired; got != want {
		s.t.Errorf("failed for idleness: %t, want %t (%+v)", got, want, f)
	}
}

func TestANewAnnotationIsUse(t *testing.T) {
	s := newStage(t, limited("", "50m")) // warned in its last five minutes
	s.begin()
	s.annotate("1")
	s.after(45*time.Minute - time.Second)
	s.podReady(api.ReasonPodReady)
	if wait := s.pass(); wait != time.Second {
		t.Errorf("reconciles again after %s, want 1s", wait)
	}
	s.after(time.Second)
	s.after(time.Minute)
	s.podReady(api.ReasonIdleSoon)
	if got := s.eventCount(api.EventExpiringSoon); got != 1 {
		t.Errorf("warned %d times", got)
	}

	s.annotate("2")
	s.after(time.Minute)
	s.podReady(api.ReasonPodReady)
	s.after(48 * time.Minute)
	s.after(time.Minute - time.Second)
	s.podReady(api.ReasonIdleSoon)
	s.failed(false)
	if got := s.eventCount(api.EventExpiringSoon); got != 1 {
		t.Errorf("the second time warned %d times", got)
	}
	s.after(time.Second)
	s.failed(true)
}

func TestAnIdleFailureIsPermanent(t *testing.T) {
	s := newStage(t, limited("8h", "50m"))
	s.begin()
	s.annotate("1")
	s.after(50 * time.Minute)
	s.failed(true)
	s.used("50m0s")
	s.pass()
	if !s.gone(&corev1.Pod{}) {
		t.Error("the Pod is still there")
	}
	s.order(func(spec *api.SessionAssignmentSpec) { spec.IdleTimeout = "10h" })
	s.after(time.Hour)
	s.failed(true)
	if !s.gone(&corev1.Pod{}) {
		t.Error("it was retried without a higher attempt")
	}

	s.order(func(spec *api.SessionAssignmentSpec) { spec.Attempt, spec.IdleTimeout = spec.Attempt+1, "50m" })
	s.begin()
	again := s.clock.Now()
	s.runs(again)
	s.after(50*time.Minute - time.Second)
	s.runs(again)
}

func TestAFailureThatCouldNotBeWrittenIsFoundAgain(t *testing.T) {
	s := newStage(t, limited("8h", "50m"))
	s.begin()
	s.annotate("1")
	s.refuse = func(write string) error {
		if write == "status SessionAssignment" {
			return apierrors.NewConflict(schema.GroupResource{}, s.key.Name, errors.New("changed meanwhile"))
		}
		return nil
	}
	s.after(50 * time.Minute)
	s.failed(false)
	s.refuse = nil
	s.after(time.Second)
	s.failed(true)
	s.used("50m1s")
	s.after(time.Minute)
	s.used("50m1s")
}

func TestADesktopThatNeverReportsActivityIsNotEnded(t *testing.T) {
	s := newStage(t, limited("", "50m"))
	s.begin()
	s.after(50*time.Minute - time.Second)
	if got := s.eventCount(api.EventActivityUnknown); got != 0 {
		t.Error("reported before it was due")
	}
	for range 10 {
		s.after(time.Hour)
	}
	s.runs(noon)
	s.failed(false)
	s.podReady(api.ReasonPodReady)
	if got := s.eventCount(api.EventActivityUnknown); got != 1 {
		t.Errorf("reported %d times as unknown", got)
	}
}

func TestTheFirstAnnotationThatAProcessSeesIsUse(t *testing.T) {
	s := newStage(t, limited("", "50m"))
	s.begin()
	s.annotate("1")
	s.after(40 * time.Minute)
	s.restart()
	s.pass()
	s.after(50*time.Minute - time.Second)
	s.failed(false)
	s.after(time.Second)
	s.failed(true)
}

func TestIdleIsNotWhatWasBeforeTheRun(t *testing.T) {
	s := newStage(t, limited("", "50m"))
	s.begin()
	s.annotate("1")
	s.after(40 * time.Minute)
	s.order(func(spec *api.SessionAssignmentSpec) { spec.RunState = api.ModeSuspended })
	s.after(24 * time.Hour)
	s.order(func(spec *api.SessionAssignmentSpec) { spec.RunState = api.ModeRunning })
	s.begin()
	s.after(50*time.Minute - time.Second)
	s.failed(false)
	s.after(time.Second)
	s.failed(true)
}

// fixedProber is a prober whose result the test sets.
type fixedProber struct {
	result  activity.Result
	targets map[types.NamespacedName]activity.Target
}

func (a *fixedProber) Watch(t activity.Target) activity.Result {
	a.targets[t.Assignment] = t
	return a.result
}

func (a *fixedProber) Forget(assignment types.NamespacedName) { delete(a.targets, assignment) }

// newProbed is a desktop with an activity path, and the prober of it.
func newProbed(t *testing.T) (*stage, *fixedProber) {
	a := limited("", "50m")
	a.Spec.Desktop.Activity.Path = "/idle"
	s, prober := newStage(t, a), &fixedProber{targets: map[types.NamespacedName]activity.Target{}}
	s.r.Activity = prober
	s.pass()
	s.bind()
	s.setPod(func(p *corev1.Pod) { makeReady(p); p.Status.PodIP = "10.1.2.3" })
	s.pass()
	s.pass()
	return s, prober
}

func TestADesktopIsProbedWhileItRuns(t *testing.T) {
	s, prober := newProbed(t)
	want := map[types.NamespacedName]activity.Target{
		s.key: {Assignment: s.key, UID: "assignment", URL: "http://10.1.2.3:80/idle", Limit: 50 * time.Minute, Began: noon},
	}
	check := func(what string, want map[types.NamespacedName]activity.Target) {
		t.Helper()
		if d := cmp.Diff(want, prober.targets); d != "" {
			t.Errorf("%s, it probes (-want +got):\n%s", what, d)
		}
	}
	none := map[types.NamespacedName]activity.Target{}
	check("while it runs", want)
	s.after(time.Hour)
	check("an hour later", want)
	s.setPod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.pass()
	check("while it is not ready", none)
	s.setPod(makeReady)
	s.pass()
	check("ready again", want)
	s.order(func(spec *api.SessionAssignmentSpec) { spec.IdleTimeout = "0s" })
	unlimited := want[s.key]
	unlimited.Limit = 0
	check("without a limit, for since when it is idle", map[types.NamespacedName]activity.Target{s.key: unlimited})
	s.order(func(spec *api.SessionAssignmentSpec) { spec.IdleTimeout = "50m" })
	check("with a limit again", want)
	s.order(func(spec *api.SessionAssignmentSpec) { spec.RunState = api.ModeSuspended })
	check("suspended", none)
}

func TestADesktopThatIsGoneIsNotProbed(t *testing.T) {
	s, prober := newProbed(t)
	a := s.assignment()
	a.Finalizers = nil
	if err := s.client.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.pass()
	if len(prober.targets) != 0 {
		t.Errorf("it probes %v", prober.targets)
	}
}

func TestWhatADesktopAnswersDecides(t *testing.T) {
	s, prober := newProbed(t)
	s.after(time.Hour)
	s.podReady(api.ReasonPodReady)
	prober.result = activity.Result{Idle: observe.IdleSoon}
	s.after(time.Hour)
	s.after(time.Minute)
	s.podReady(api.ReasonIdleSoon)
	prober.result = activity.Result{Silent: true}
	s.after(time.Hour)
	s.after(time.Minute)
	s.podReady(api.ReasonPodReady)
	s.failed(false)
	if got := s.eventCount(api.EventActivityUnknown); got != 1 {
		t.Errorf("reported %d times as unknown", got)
	}
	prober.result = activity.Result{Idle: observe.IdleOver}
	s.pass()
	s.failed(true)
	s.pass()
	if len(prober.targets) != 0 {
		t.Errorf("it still probes %v", prober.targets)
	}
}
