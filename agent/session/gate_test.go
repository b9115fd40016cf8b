package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func held(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverHold }

// gating is a stage whose agent makes guards and gates, by a key that can change.
func gating(t *testing.T, a *api.SessionAssignment) (s *stage, key *string) {
	s, key = newStage(t, a), new(string)
	*key = "key"
	s.r.Options.Guard, s.r.GuardKey = aGuard, func() string { return *key }
	return s, key
}

func (s *stage) thePod() *corev1.Pod {
	s.t.Helper()
	var p corev1.Pod
	s.get(&p)
	return &p
}

// edit changes the assignment as the hub does.
func (s *stage) edit(change func(*api.SessionAssignment)) {
	s.t.Helper()
	a := s.assignment()
	change(a)
	a.Generation++
	if err := s.client.Update(s.t.Context(), a); err != nil {
		s.t.Fatal(err)
	}
}

// gateIs sets the gate's status as a kubelet does.
func (s *stage) gateIs(state corev1.ContainerState) {
	s.t.Helper()
	s.setPod(func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: render.GateContainer, State: state}}
	})
}

var (
	atGate = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	passed = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
)

func TestWhichDesktopsStartBehindAGate(t *testing.T) {
	for mode, want := range map[api.FailoverMode]bool{api.FailoverHold: true, api.FailoverRestart: false, "": false} {
		s, _ := gating(t, desktop(func(a *api.SessionAssignment) { a.Spec.FailoverMode = mode }))
		s.pass()
		if p := s.thePod(); (render.Gate(p) != nil) != want || render.Guarded(p) {
			t.Errorf("mode %q has init containers %v", mode, p.Spec.InitContainers)
		}
		if s.assignment().Status.Guarded {
			t.Errorf("mode %q: the hub would count on its end by time", mode)
		}
	}
	s := newStage(t, desktop(held))
	s.pass()
	if render.Gate(s.thePod()) != nil {
		t.Error("an agent without a guard image makes a gate")
	}
}

func TestNoPodIsMadeBeforeItsGateCanKnowTheAgent(t *testing.T) {
	s, key := gating(t, desktop(held))
	*key = ""
	s.pass()
	s.after(time.Minute)
	if !s.gone(&corev1.Pod{}) {
		t.Fatal("its gate would wait forever")
	}
	if c := s.condition(api.ConditionPodReady); c.Reason != api.ReasonPodPending || !strings.Contains(c.Message, "gate") {
		t.Errorf("PodReady is %+v", c)
	}
	*key = "key"
	s.pass()
	if render.Gate(s.thePod()) == nil {
		t.Error("it has no gate")
	}
}

// Gates come with the next Pod: none that is there is recreated for the lack of one,
// for another mode, or for a lapse, while the desktop runs.
func TestAPodThatRunsKeepsTheGateThatItHasOrHasNot(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   api.FailoverMode
		change func(s *stage, key *string)
		// without: the agent makes no gates at first.
		without bool
	}{
		"an agent that makes gates from now on": {mode: api.FailoverHold, without: true, change: func(s *stage, _ *string) { s.r.Options.Guard = aGuard }},
		"mode Hold from now on":                 {mode: api.FailoverRestart, change: func(s *stage, _ *string) { s.edit(held) }},
		"mode Restart from now on": {mode: api.FailoverHold, change: func(s *stage, _ *string) {
			s.edit(func(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverRestart })
		}},
		"mode Fence from now on": {mode: api.FailoverHold, change: func(s *stage, _ *string) {
			s.edit(func(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverFence })
		}},
		"another key":                {mode: api.FailoverHold, change: func(_ *stage, key *string) { *key = "other" }},
		"no image of gates any more": {mode: api.FailoverHold, change: func(s *stage, _ *string) { s.r.Options.Guard = nil }},
		"a question to the hub": {mode: api.FailoverHold, change: func(s *stage, _ *string) {
			a := s.assignment()
			a.Status.Lapse = 3
			if err := s.client.Status().Update(s.t.Context(), a); err != nil {
				s.t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, key := gating(t, desktop(func(a *api.SessionAssignment) { a.Spec.FailoverMode = tc.mode }))
			if tc.without {
				s.r.Options.Guard = nil
			}
			s.pass()
			s.bind()
			if render.Gate(s.thePod()) != nil {
				s.gateIs(passed)
			}
			s.setPod(makeReady)
			s.pass()
			before := s.thePod()
			tc.change(s, key)
			s.wrote()
			for range 3 {
				s.after(time.Minute)
			}
			if after := s.thePod(); after.UID != before.UID || slices.Contains(s.wrote(), "delete Pod") {
				t.Error("the Pod was recreated")
			}
			if c := s.condition(api.ConditionPodReady); c.Reason != api.ReasonPodReady {
				t.Errorf("PodReady is %+v", c)
			}
		})
	}
}

func TestADesktopDoesNotWaitForeverAtAnUnansweredGate(t *testing.T) {
	mode := func(m api.FailoverMode) func(*stage, *string) {
		return func(s *stage, _ *string) { s.edit(func(a *api.SessionAssignment) { a.Spec.FailoverMode = m }) }
	}
	for name, tc := range map[string]struct {
		change func(s *stage, key *string)
		again  bool
	}{
		"as it was made":          {func(*stage, *string) {}, false},
		"another image":           {func(s *stage, _ *string) { g := *aGuard; g.Image = "agent:2"; s.r.Options.Guard = &g }, false},
		"the key is not known":    {func(_ *stage, key *string) { *key = "" }, false},
		"another key":             {func(_ *stage, key *string) { *key = "other" }, true},
		"another address":         {func(s *stage, _ *string) { g := *aGuard; g.LeaseURL = "http://other:1"; s.r.Options.Guard = &g }, true},
		"no gates any more":       {func(s *stage, _ *string) { s.r.Options.Guard = nil }, true},
		"mode Restart by now":     {mode(api.FailoverRestart), true},
		"mode Fence by now":       {mode(api.FailoverFence), true},
		"an epoch that is raised": {func(s *stage, _ *string) { s.edit(func(a *api.SessionAssignment) { a.Spec.Epoch++ }) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, key := gating(t, desktop(held))
			s.pass()
			s.bind()
			s.gateIs(atGate)
			s.pass()
			before := s.thePod().UID
			tc.change(s, key)
			s.after(time.Minute)
			s.after(time.Minute)
			again := s.gone(&corev1.Pod{}) || s.thePod().UID != before
			if again != tc.again {
				t.Errorf("recreated: %t, want %t", again, tc.again)
			}
		})
	}
}

func TestTheGatesContainerIsTheOneThatIsObserved(t *testing.T) {
	a := desktop(held)
	a.Status.Lapse = 1
	pod := render.GatedPod(a, *aGuard)
	pod.UID, pod.Spec.NodeName = types.UID("pod"), "n1"
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: render.GateContainer, State: atGate}}
	if c := observe.Pod(a, observe.Children{Pod: pod}); c.Reason != api.ReasonAwaitingHub {
		t.Errorf("PodReady is %+v", c)
	}
}
