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
// server is that of the cache, and says nothing of a start, may run.
func TestAChangedDesktopReplacesNoPodThatMayHaveStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		unbound bool
		status  func(*corev1.Pod)
		anew    bool
	}{
		"without a node":                     {unbound: true, anew: true},
		"of whose start nothing is known":    {},
		"that is being created":              {status: waits("ContainerCreating", 0)},
		"whose init containers are at it":    {status: waits("PodInitializing", 0)},
		"that runs":                          {status: answersNobody},
		"whose image can't be pulled":        {status: waits("ImagePullBackOff", 0), anew: true},
		"whose container can't be made":      {status: waits("CreateContainerConfigError", 0), anew: true},
		"that ended and is started again":    {status: waits("CrashLoopBackOff", 3), anew: true},
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
			if anew := s.gone(&corev1.Pod{}) || s.thePod().UID != before; anew != tc.anew {
				t.Errorf("replaced: %t, want %t; writes %v", anew, tc.anew, s.wrote())
			}
		})
	}
}

func besidesACrash(p *corev1.Pod) {
	answersNobody(p)
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
