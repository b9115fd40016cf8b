package observe

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// imageReasons are the kubelet's words for an image that it can't get.
var imageReasons = map[string]bool{
	"ErrImagePull":              true,
	"ImagePullBackOff":          true,
	"InvalidImageName":          true,
	"ErrImageNeverPull":         true,
	"ImageInspectError":         true,
	"RegistryUnavailable":       true,
	"SignatureValidationFailed": true,
}

// containerReasons are the kubelet's words for a container that it can't make.
var containerReasons = map[string]bool{
	"CreateContainerConfigError": true,
	"CreateContainerError":       true,
	"PreCreateHookError":         true,
	"PreStartHookError":          true,
	"PostStartHookError":         true,
	"RunContainerError":          true,
}

// container says why a container that should run is not ready, or "" where it
// has nothing to say.
func container(pod *corev1.Pod, s *corev1.ContainerStatus) (reason, message string) {
	switch {
	case s.State.Waiting != nil:
		return waiting(pod, s)
	case outOfMemory(s.State.Terminated):
		return api.ReasonOutOfMemory, "The desktop " + ended(s.State.Terminated) + ", it is started again."
	case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
		return api.ReasonStarting, "The desktop " + ended(s.State.Terminated) + ", it is started again."
	case s.State.Running == nil || s.Ready:
		return "", ""
	case s.Started != nil && *s.Started:
		return api.ReasonPodNotReady, fmt.Sprintf("The desktop runs on node %s but does not answer on its port.", pod.Spec.NodeName)
	case s.RestartCount > 0 && s.LastTerminationState.Terminated != nil:
		return api.ReasonStarting, fmt.Sprintf("The desktop %s, it was started again (restart %d).",
			ended(s.LastTerminationState.Terminated), s.RestartCount)
	default:
		return api.ReasonStarting, fmt.Sprintf("The desktop runs on node %s and does not answer on its port yet.", pod.Spec.NodeName)
	}
}

// waiting is a container that the kubelet has not started, or not yet again.
func waiting(pod *corev1.Pod, s *corev1.ContainerStatus) (reason, message string) {
	w := s.State.Waiting
	switch {
	case imageReasons[w.Reason]:
		return api.ReasonImagePull, fmt.Sprintf(
			"The image %s can't be pulled: check its name, its pull secret and the registry (%s).", image(pod, s), pullError(w))
	case containerReasons[w.Reason]:
		return api.ReasonContainerError, fmt.Sprintf("The container can't be made: %s.", words(w))
	case w.Reason == "CrashLoopBackOff" && outOfMemory(s.LastTerminationState.Terminated):
		return api.ReasonOutOfMemory, fmt.Sprintf("The desktop %s, %d times by now: it needs more memory.",
			ended(s.LastTerminationState.Terminated), s.RestartCount)
	case w.Reason == "CrashLoopBackOff" && s.LastTerminationState.Terminated != nil:
		return api.ReasonCrashLoop, fmt.Sprintf("The desktop %s, %d times by now: look at its logs.",
			ended(s.LastTerminationState.Terminated), s.RestartCount)
	case w.Reason == "CrashLoopBackOff":
		return api.ReasonCrashLoop, "The desktop ends again and again: look at its logs."
	default:
		return "", ""
	}
}

// image is what the template names: a container's status may tell it as the
// runtime does, or not at all.
func image(pod *corev1.Pod, s *corev1.ContainerStatus) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == s.Name {
			return c.Image
		}
	}
	return s.Image
}

// pullError is why an image can't be pulled, in the same words whether the
// kubelet has just tried or waits to try again: it goes back and forth between
// the two for as long as the image is missing.
func pullError(w *corev1.ContainerStateWaiting) string {
	const tried = "ErrImagePull"
	if w.Reason == tried && w.Message != "" {
		return w.Message
	}
	if _, cause, found := strings.Cut(w.Message, tried+": "); found {
		return cause
	}
	return words(w)
}

func words(w *corev1.ContainerStateWaiting) string {
	if w.Message == "" {
		return w.Reason
	}
	return w.Reason + ": " + w.Message
}

func outOfMemory(t *corev1.ContainerStateTerminated) bool {
	return t != nil && t.Reason == "OOMKilled"
}

// ended says how a container ended, as the end of "The desktop ...".
func ended(t *corev1.ContainerStateTerminated) string {
	switch {
	case outOfMemory(t):
		return "ran out of its memory limit"
	case t.Signal != 0:
		return fmt.Sprintf("was ended by signal %d", t.Signal)
	default:
		return fmt.Sprintf("ended with exit code %d", t.ExitCode)
	}
}
