package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var aGuard = &render.Guard{Image: "agent:1", LeaseURL: "http://agent:8082", Port: 8079, TimeFactor: 1, Key: "key"}

// fenceState is what fencing depends on.
type fenceState struct {
	pod   *corev1.Pod
	guard *render.Guard
	lease fence.Status
}

func TestWhatFencingMeans(t *testing.T) {
	valid := fence.Status{State: fence.Valid, Left: time.Minute}
	over := fence.Status{State: fence.Over}
	plain, guarded := render.Pod(desktop()), render.GuardedPod(desktop(), *aGuard)
	for name, tc := range map[string]struct {
		status api.SessionAssignmentStatus
		lapse  int64
		s      fenceState
		// want: runs, over, not yet; with a guard; guarded.
		want                string
		withGuard, countsOn bool
	}{
		"a new desktop has a guard":                {s: fenceState{guard: aGuard, lease: valid}, want: "runs", withGuard: true, countsOn: true},
		"none is made while the lease is over":     {s: fenceState{guard: aGuard, lease: over}, want: "over", withGuard: true, countsOn: true},
		"none is made while that is unknown":       {s: fenceState{guard: aGuard}, want: "not yet", withGuard: true, countsOn: true},
		"none is made before the key is known":     {s: fenceState{guard: &render.Guard{}, lease: valid}, want: "not yet", countsOn: true},
		"one that runs goes on":                    {s: fenceState{pod: guarded, guard: aGuard, lease: valid}, want: "runs", withGuard: true, countsOn: true},
		"it ends with the lease":                   {s: fenceState{pod: guarded, guard: aGuard, lease: over}, want: "over", withGuard: true, countsOn: true},
		"it is not ended while that is unknown":    {s: fenceState{pod: guarded, guard: aGuard}, want: "not yet", withGuard: true, countsOn: true},
		"it ends until it is affirmed":             {status: api.SessionAssignmentStatus{Lapse: 2}, lapse: 1, s: fenceState{pod: guarded, guard: aGuard, lease: valid}, want: "over", withGuard: true, countsOn: true},
		"even if that is unknown":                  {status: api.SessionAssignmentStatus{Lapse: 2}, lapse: 1, s: fenceState{pod: guarded, guard: aGuard}, want: "over", withGuard: true, countsOn: true},
		"it goes on once it is":                    {status: api.SessionAssignmentStatus{Lapse: 2}, lapse: 2, s: fenceState{guard: aGuard, lease: valid}, want: "runs", withGuard: true, countsOn: true},
		"one without a guard is left alone":        {s: fenceState{pod: plain, guard: aGuard, lease: over}, want: "runs", withGuard: true},
		"also where guards are not configured":     {s: fenceState{pod: plain, lease: over}, want: "runs"},
		"there it is made without":                 {s: fenceState{}, want: "runs"},
		"but never again once it had one":          {status: api.SessionAssignmentStatus{Guarded: true}, s: fenceState{}, want: "not yet", countsOn: true},
		"and one that has one is not stopped here": {s: fenceState{pod: guarded}, want: "not yet", countsOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := desktop(func(a *api.SessionAssignment) {
				a.Spec.FailoverMode, a.Spec.Lapse, a.Status = api.FailoverFence, tc.lapse, tc.status
			})
			f := fencingOf(a, tc.s.pod, tc.s.guard, tc.s.lease)
			got := "runs"
			switch {
			case f.over != nil:
				got = "over"
			case f.notYet != nil:
				got = "not yet"
			}
			if got != tc.want || (f.guard != nil) != tc.withGuard || f.guarded != tc.countsOn {
				t.Errorf("%s, with a guard: %t, guarded: %t; want %s, %t, %t", got, f.guard != nil, f.guarded, tc.want, tc.withGuard, tc.countsOn)
			}
			if p := f.over; p != nil && (p.Reason != api.ReasonLeaseExpired || !strings.Contains(p.Message, "hub")) {
				t.Errorf("the problem is %+v", p)
			}
		})
	}
}

// fixedLease is a lease whose status the test sets.
type fixedLease struct{ status fence.Status }

func (s *fixedLease) Status() fence.Status               { return s.status }
func (s *fixedLease) Require()                           {}
func (s *fixedLease) Changes() <-chan event.GenericEvent { return nil }

func TestAFencedDesktopsTimeStandsStillWhileItIsStopped(t *testing.T) {
	a := limited("1h", "")
	a.Spec.FailoverMode = api.FailoverFence
	s := newStage(t, a)
	lease := &fixedLease{fence.Status{State: fence.Valid, Left: time.Hour}}
	s.r.Lease, s.r.GuardKey, s.r.Options.Guard = lease, func() string { return "key" }, aGuard
	s.begin()
	if !s.assignment().Status.Guarded {
		t.Error("that it is guarded is not reported at once, and the hub would hold it")
	}
	s.after(10 * time.Minute)
	lease.status = fence.Status{State: fence.Over}
	s.pass()
	s.pass()
	if !s.gone(&corev1.Pod{}) {
		t.Fatal("the Pod is still there")
	}
	s.used("10m0s")
	if c := s.condition(api.ConditionPodReady); c.Reason != api.ReasonLeaseExpired {
		t.Errorf("PodReady is %+v", c)
	}
	s.wrote()
	s.after(time.Hour)
	if got := s.wrote(); len(got) != 0 {
		t.Errorf("it does not stop: %v", got)
	}
	lease.status = fence.Status{State: fence.Valid, Left: time.Hour}
	s.pass()
	s.bind()
	s.setPod(makeReady)
	s.pass()
	s.runs(s.clock.Now())
	s.after(49 * time.Minute)
	s.runs(s.clock.Now().Add(-49 * time.Minute))
	s.after(time.Minute)
	if !s.gone(&corev1.Pod{}) {
		t.Error("its time is not over once it has run for its timeout in all")
	}
}

// A Pod that its guard or a reboot of the node has ended is recreated, only with a lease.
func TestAPodThatItsGuardEndedIsNotRecreatedWithoutALease(t *testing.T) {
	s := newStage(t, desktop(func(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverFence }))
	lease := &fixedLease{fence.Status{State: fence.Valid, Left: time.Hour}}
	s.r.Lease, s.r.GuardKey, s.r.Options.Guard = lease, func() string { return "key" }, aGuard
	s.pass()
	s.bind()
	s.setPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	lease.status = fence.Status{State: fence.Over}
	s.wrote()
	s.pass()
	s.pass()
	if !s.gone(&corev1.Pod{}) || slices.Contains(s.wrote(), "create Pod") {
		t.Error("a new one was made without a lease")
	}
	lease.status = fence.Status{State: fence.Valid, Left: time.Hour}
	s.after(time.Minute)
	if s.gone(&corev1.Pod{}) {
		t.Error("none is made with one")
	}
}

// The lease of the hub may become valid while a pass runs, once every assignment is marked in the
// cache, from which the pass has read it before.
func TestAPassFromBeforeTheLapseWasMarkedStartsNoDesktop(t *testing.T) {
	a := desktop(func(a *api.SessionAssignment) {
		a.Spec.FailoverMode = api.FailoverFence
		a.Status.Guarded = true
	})
	s := newStage(t, a)
	lease := &fixedLease{fence.Status{State: fence.Over}}
	s.r.Lease, s.r.GuardKey, s.r.Options.Guard = lease, func() string { return "key" }, aGuard
	s.pass()
	unmarked := s.assignment()
	s.stale = func(_ client.ObjectKey, o client.Object) (bool, error) {
		a, ok := o.(*api.SessionAssignment)
		if ok {
			unmarked.DeepCopyInto(a)
			lease.status = fence.Status{State: fence.Valid, Left: time.Hour}
		}
		return ok, nil
	}
	s.pass()
	if !s.gone(&corev1.Pod{}) {
		t.Error("a desktop that the hub may have rescheduled was started")
	}
	s.stale = nil
	s.pass()
	if s.gone(&corev1.Pod{}) {
		t.Error("without a mark the next pass starts none")
	}
}

func TestTheGuardsContainerIsTheOneThatIsObserved(t *testing.T) {
	pod := render.GuardedPod(desktop(), *aGuard)
	pod.Spec.NodeName = "n1"
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: render.GuardContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Started: new(false),
	}}
	c := observe.Pod(desktop(), observe.Children{Pod: pod})
	if c.Reason != api.ReasonStarting || !strings.Contains(c.Message, "guard") {
		t.Errorf("PodReady is %+v", c)
	}
}

func TestAGuardOutlivesTheModeThatRequiredIt(t *testing.T) {
	s := newStage(t, desktop(func(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverFence }))
	s.r.Lease, s.r.GuardKey, s.r.Options.Guard = &fixedLease{fence.Status{State: fence.Valid, Left: time.Hour}}, func() string { return "key" }, aGuard
	s.begin()
	a := s.assignment()
	a.Spec.FailoverMode = api.FailoverRestart
	if err := s.client.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.after(time.Minute)
	s.after(time.Minute)
	if a := s.assignment(); s.gone(&corev1.Pod{}) || !a.Status.Guarded {
		t.Errorf("the Pod was ended, or its guard not recorded: %+v", a.Status)
	}
}
