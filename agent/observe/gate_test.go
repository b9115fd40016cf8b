package observe

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestADesktopBehindAGateReportsWhatItWaitsFor(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	passed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
	for name, tc := range map[string]struct {
		gate            corev1.ContainerState
		spec, status    int64
		mode            api.FailoverMode
		reason, message string
	}{
		"for the agent, once it has requested":      {running, 0, 0, api.FailoverHold, api.ReasonStarting, "agent permits"},
		"for the hub, once the agent has requested": {running, 1, 2, api.FailoverHold, api.ReasonAwaitingHub, "hub has affirmed"},
		"for the agent, once the hub has affirmed":  {running, 2, 2, api.FailoverHold, api.ReasonStarting, "agent permits"},
		"for the gate to be made":                   {corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}, 1, 2, api.FailoverHold, api.ReasonStarting, "starts on node n1"},
		"for the gate to be made again":             {killed, 1, 2, api.FailoverHold, api.ReasonStarting, "restarted"},
		"for nothing, once it has passed":           {passed, 1, 2, api.FailoverHold, api.ReasonStarting, "starts on node n1"},
		"for its gate in another mode":              {running, 1, 2, api.FailoverRestart, api.ReasonStarting, "agent permits"},
	} {
		t.Run(name, func(t *testing.T) {
			a := assignment(func(a *api.SessionAssignment) {
				a.Spec.FailoverMode, a.Spec.Lapse, a.Status.Lapse = tc.mode, tc.spec, tc.status
			})
			p := pod(func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: render.GateContainer}}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: render.GateContainer, State: tc.gate}}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{
					Name: "desktop", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
				}}
			})
			f := Children{Pod: p}
			c := Pod(a, f)
			if c.Status != metav1.ConditionFalse || c.Reason != tc.reason || !strings.Contains(c.Message, tc.message) {
				t.Errorf("PodReady is %s (%s: %s), want %s with %q", c.Status, c.Reason, c.Message, tc.reason, tc.message)
			}
			if failed, _ := FailureOf(a, f, Status(a, f, noon), 0, RetryLimits{}, noon.Add(1000*1000*1000*3600)); failed != nil {
				t.Errorf("it has failed: %+v", failed)
			}
		})
	}
}

// A problem of a guard or a gate is reported as such, and fails no session: neither its user
// nor its template can remedy it.
func TestAGuardThatDoesNotStartIsNotTheDesktop(t *testing.T) {
	for name, tc := range map[string]struct{ waiting, message, remedy string }{
		"no such image": {"ErrImagePull", "The image agent:nowhere of the ", "can pull"},
		"never pulled":  {"ErrImageNeverPull", "The image agent:nowhere of the ", "can pull"},
		"not made":      {"CreateContainerError", "does not start (CreateContainerError)", "its logs"},
		"ends":          {"CrashLoopBackOff", "does not start (CrashLoopBackOff)", "its logs"},
	} {
		for _, container := range []string{render.GuardContainer, render.GateContainer} {
			t.Run(name+" "+container, func(t *testing.T) {
				a := assignment()
				p := pod(func(p *corev1.Pod) {
					p.Spec.InitContainers = []corev1.Container{{Name: container, Image: "agent:nowhere"}}
					p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
						Name: container, RestartCount: 9, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: tc.waiting}},
					}}
					p.Status.ContainerStatuses = []corev1.ContainerStatus{{
						Name: "desktop", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
					}}
				})
				f := Children{Pod: p}
				c := Pod(a, f)
				if c.Reason != api.ReasonGuardUnavailable || !strings.Contains(c.Message, tc.message) || !strings.Contains(c.Message, "--guard-image") || !strings.Contains(c.Message, tc.remedy) || !IsTrouble(c) {
					t.Errorf("PodReady is %s (%s), want %s with %q", c.Reason, c.Message, api.ReasonGuardUnavailable, tc.message)
				}
				if failed, _ := FailureOf(a, f, Status(a, f, noon), 0, RetryLimits{}, noon.Add(1000*1000*1000*3600)); failed != nil {
					t.Errorf("it has failed: %+v", failed)
				}
			})
		}
	}
}
