package session

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var pod = schema.GroupResource{Resource: "pods"}

func desktop(change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	a := &api.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "web-0123456789", UID: "assignment", Generation: 1, Finalizers: []string{api.AssignmentFinalizer},
			Labels: map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelSessionUID: "session"},
		},
		Spec: api.SessionAssignmentSpec{
			Session:  api.SessionReference{Namespace: "team", Name: "web", UID: "session"},
			Epoch:    2,
			User:     "jane@example.com",
			RunState: api.ModeRunning,
			Host:     "web.example.com",
			Desktop:  api.Desktop{Image: "browser:1", Port: 80},
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func perUser(a *api.SessionAssignment) {
	a.Spec.Desktop.Home = api.AssignedHome{Mode: api.HomePerUser, ClaimName: "home-x"}
}

func perSession(a *api.SessionAssignment) {
	a.Spec.Desktop.Home = api.AssignedHome{Mode: api.HomePerSession, ClaimName: a.Name}
}

func runs(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func TestOutdated(t *testing.T) {
	waits := func(*corev1.Pod) {}
	changed := func(a *api.SessionAssignment) { a.Spec.Desktop.Image = "browser:2" }
	again := func(a *api.SessionAssignment) { a.Spec.Epoch++ }
	cases := map[string]struct {
		pod    func(*corev1.Pod)
		change []func(*api.SessionAssignment)
		want   bool
	}{
		"as it was":                 {runs, nil, false},
		"rescheduled, same desktop": {runs, []func(*api.SessionAssignment){again}, false},
		"changed, running":          {runs, []func(*api.SessionAssignment){changed}, false},
		"changed, not running":      {waits, []func(*api.SessionAssignment){changed}, false},
		"changed and rescheduled":   {runs, []func(*api.SessionAssignment){changed, again}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := render.Pod(desktop())
			c.pod(p)
			if got := outdated(desktop(c.change...), p); got != c.want {
				t.Errorf("outdated = %t, want %t", got, c.want)
			}
		})
	}
}

func TestAPodThatStartsThisMomentIsNotReplaced(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	s.refuse = func(write string) error {
		if write == "delete Pod" {
			s.refuse = nil
			s.setPod(func(p *corev1.Pod) { runs(p); makeReady(p) }) // after the agent has read it
		}
		return nil
	}
	s.order(func(a *api.SessionAssignmentSpec) { a.Desktop.Image = "browser:2" })
	s.after(children.ConflictRetry)
	var p corev1.Pod
	if s.get(&p); p.Spec.Containers[0].Image != "browser:1" {
		t.Error("a desktop that ran was deleted")
	}

	s = newStage(t, desktop())
	s.pass()
	s.order(func(a *api.SessionAssignmentSpec) { a.Desktop.Image = "browser:2" })
	s.after(children.ConflictRetry)
	if s.get(&p); p.Spec.Containers[0].Image != "browser:2" {
		t.Errorf("its image is %s: it did not run, and was not replaced", p.Spec.Containers[0].Image)
	}
}
