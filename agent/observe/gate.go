package observe

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// gateFinding returns the finding of a gate: the desktop waits until it opens.
func gateFinding(pod *corev1.Pod, s *corev1.ContainerStatus) finding {
	switch ended := s.State.Terminated; {
	case s.State.Running != nil:
		return finding{api.ReasonStarting, fmt.Sprintf("The gate on node %s waits until the agent permits the desktop to start", pod.Spec.NodeName)}
	case ended != nil && ended.ExitCode != 0:
		return finding{api.ReasonStarting, fmt.Sprintf("The gate on node %s has ended (exit code %d) and is restarted", pod.Spec.NodeName, ended.ExitCode)}
	default:
		return finding{}
	}
}

// guardUnavailable returns the finding of a guard or a gate that the kubelet has not started
// or restarted. Only the member's administrator can remedy it.
func guardUnavailable(pod *corev1.Pod, s *corev1.ContainerStatus) finding {
	what := "guard"
	if s.Name == render.GateContainer {
		what = "gate"
	}
	remedy := "set the agent's --guard-image to one that the nodes can pull"
	w := s.State.Waiting
	_, ofImage := imageReasons[w.Reason]
	switch {
	case ofImage:
		what = fmt.Sprintf("The image %s of the %s can't be pulled on node %s (%s)", image(pod, s), what, pod.Spec.NodeName, pullError(w))
	case containerReasons[w.Reason], w.Reason == crashLoop:
		what = fmt.Sprintf("The %s on node %s does not start (%s)", what, pod.Spec.NodeName, waitingText(w))
		remedy = "check its logs, and the agent's --guard-image"
	default:
		return finding{}
	}
	return finding{api.ReasonGuardUnavailable, what + ", and the desktop waits for it: the member's administrator has to " + remedy}
}

// awaitsHub returns the finding of a desktop whose gate waits for the hub, and whether it
// does.
func awaitsHub(a *api.SessionAssignment, pod *corev1.Pod) (finding, bool) {
	if a.Spec.FailoverMode != api.FailoverHold || a.Status.Lapse <= a.Spec.Lapse || !atGate(pod) {
		return finding{}, false
	}
	return finding{api.ReasonAwaitingHub, "The desktop waits until the hub has affirmed that it was not rescheduled while this member or its agent was down: " +
		"it starts once the agent has reached the hub"}, true
}

// atGate reports whether a Pod's gate runs, and so has not opened.
func atGate(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == render.GateContainer && s.State.Running != nil
	})
}
