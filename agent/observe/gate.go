package observe

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// gating returns the finding of a gate: until it opens, the desktop waits.
func gating(pod *corev1.Pod, s *corev1.ContainerStatus) finding {
	switch ended := s.State.Terminated; {
	case s.State.Running != nil:
		return finding{api.ReasonStarting, fmt.Sprintf("The gate on node %s waits until the agent permits the desktop to start", pod.Spec.NodeName)}
	case ended != nil && ended.ExitCode != 0:
		return finding{api.ReasonStarting, fmt.Sprintf("The gate on node %s has ended (exit code %d) and is started again", pod.Spec.NodeName, ended.ExitCode)}
	default:
		return finding{}
	}
}

// unavailable returns the finding of a guard or a gate that the kubelet has not started, or
// not again. Both are the agent's: its administrator can help, and no template.
func unavailable(pod *corev1.Pod, s *corev1.ContainerStatus) finding {
	what := "guard"
	if s.Name == render.GateContainer {
		what = "gate"
	}
	remedy := "give the agent a --guard-image that its nodes can pull"
	w := s.State.Waiting
	_, ofImage := imageReasons[w.Reason]
	switch {
	case ofImage:
		what = fmt.Sprintf("The image %s of the %s can't be pulled on node %s (%s)", image(pod, s), what, pod.Spec.NodeName, pullError(w))
	case containerReasons[w.Reason], w.Reason == crashLoop:
		what = fmt.Sprintf("The %s on node %s does not start (%s)", what, pod.Spec.NodeName, words(w))
		remedy = "look at its logs, and at the agent's --guard-image"
	default:
		return finding{}
	}
	return finding{api.ReasonGuardUnavailable, what + ", and the desktop waits for it: the member's administrator has to " + remedy}
}

// awaitsHub reports whether a desktop waits at its gate until the hub affirms it.
func awaitsHub(a *api.SessionAssignment, pod *corev1.Pod) (finding, bool) {
	if a.Spec.FailoverMode != api.FailoverHold || a.Status.Lapse <= a.Spec.Lapse || !atGate(pod) {
		return finding{}, false
	}
	return finding{api.ReasonAwaitingHub, "The desktop waits until the hub has affirmed that it was not rescheduled while this member or its agent was off: " +
		"it starts once the agent has reached the hub"}, true
}

// atGate reports whether a Pod's gate runs, and so is not open.
func atGate(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == render.GateContainer && s.State.Running != nil
	})
}
