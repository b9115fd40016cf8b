package session

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func anotherImage(a *api.SessionAssignment) { a.Spec.Desktop.Image = "registry.example.com/another:1" }

// A kubelet starts a desktop first and writes so later: a Pod whose version in the API
// server is that of the cache, and shows no start, may run.
func TestAChangedDesktopReplacesNoPodThatMayHaveStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		unbound bool
		status  func(*corev1.Pod)
		again   bool
	}{
		"without a node":                     {unbound: true, again: true},
		"whose start is unknown":             {},
		"that is being created":              {status: waits("ContainerCreating", 0)},
		"whose init containers are at it":    {status: waits("PodInitializing", 0)},
		"that runs":                          {status: neverReady},
		"whose image can't be pulled":        {status: waits("ImagePullBackOff", 0), again: true},
		"whose container can't be made":      {status: waits("CreateContainerConfigError", 0), again: true},
		"that ended and is started again":    {status: waits("CrashLoopBackOff", 3), again: true},
		"that runs though its guard crashes": {status: besidesACrash},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, desktop())
			s.pass()
			if !tc.unbound {
				s.bind()
			}
			if tc.status != nil {
				s.setPod(tc.status)
			}
			s.pass()
			before := s.thePod().UID
			s.edit(anotherImage)
			s.wrote()
			s.after(time.Second)
			s.after(time.Minute)
			if again := s.gone(&corev1.Pod{}) || s.thePod().UID != before; again != tc.again {
				t.Errorf("replaced: %t, want %t; writes %v", again, tc.again, s.wrote())
			}
		})
	}
}

func besidesACrash(p *corev1.Pod) {
	neverReady(p)
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "vdi-guard", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	}}
}

func TestAnAssignmentThatIsOlderThanItsPodReplacesItNot(t *testing.T) {
	s := newStage(t, desktop())
	old := s.assignment()
	s.edit(anotherImage)
	s.pass()
	before := s.thePod().UID
	s.stale = func(_ client.ObjectKey, o client.Object) (bool, error) {
		a, ok := o.(*api.SessionAssignment)
		if ok {
			old.DeepCopyInto(a)
		}
		return ok, nil
	}
	s.wrote()
	s.after(time.Minute)
	if slices.Contains(s.wrote(), "delete Pod") {
		t.Error("a cache that is behind cost the desktop its Pod")
	}
	s.stale = nil
	s.pass()
	if s.thePod().UID != before {
		t.Error("the Pod was replaced")
	}
}

// A gate that was passed a moment ago is still reported to wait.
func TestAGateIsNotReplacedWhileItMayHaveBeenPassed(t *testing.T) {
	s, key := gating(t, desktop(held))
	s.pass()
	s.bind()
	s.gateIs(atGate)
	s.pass()
	*key = "other"
	s.wrote()
	s.after(time.Second)
	if slices.Contains(s.wrote(), "delete Pod") {
		t.Fatal("the Pod went at once")
	}
	s.gateIs(passed)
	s.setPod(makeReady)
	s.after(time.Minute)
	if slices.Contains(s.wrote(), "delete Pod") {
		t.Error("the Pod went although its desktop runs")
	}
}

// The API server deletes a Pod without a node at once. If it is bound in that moment,
// its kubelet starts a desktop that has no Pod any more, beside that of the next Pod.
func TestAPodThatIsBoundMeanwhileIsNotRemovedAtOnce(t *testing.T) {
	for name, change := range map[string]func(*api.SessionAssignment){
		"retried":   func(a *api.SessionAssignment) { a.Spec.Attempt++ },
		"suspended": func(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, desktop())
			s.pass()
			unbound := s.thePod()
			s.bind()
			s.edit(change)
			s.stale = func(_ client.ObjectKey, o client.Object) (bool, error) {
				pod, ok := o.(*corev1.Pod)
				if ok {
					unbound.DeepCopyInto(pod)
				}
				return ok, nil
			}
			s.pass()
			s.stale = nil
			if s.gone(&corev1.Pod{}) || s.thePod().UID != unbound.UID {
				t.Fatalf("the Pod that its kubelet starts is gone; writes %v", s.wrote())
			}
			s.wrote()
			s.after(time.Second)
			if !slices.Contains(s.wrote(), "delete Pod") {
				t.Error("it is not removed once its node is known")
			}
		})
	}
}
