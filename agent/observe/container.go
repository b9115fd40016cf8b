package observe

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// imageReasons has the kubelet's reasons for an image that it can't pull, and whether a
// retry can't cure them.
var imageReasons = map[string]bool{
	"ErrImagePull":              false,
	"ImagePullBackOff":          false,
	"InvalidImageName":          true,
	"ErrImageNeverPull":         true,
	"ImageInspectError":         false,
	"RegistryUnavailable":       false,
	"SignatureValidationFailed": false,
}

// containerReasons are the kubelet's reasons for a container that it can't create.
var containerReasons = map[string]bool{
	"CreateContainerConfigError": true,
	"CreateContainerError":       true,
	"PreCreateHookError":         true,
	"PreStartHookError":          true,
	"PostStartHookError":         true,
	"RunContainerError":          true,
}

// FailsToStart reports whether the kubelet can't start a container of a Pod, or delays its
// restart. A container that is being started does not count.
func FailsToStart(pod *corev1.Pod) bool {
	return slices.ContainsFunc(containerStatuses(pod), func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && waitingFinding(pod, &s).reason != ""
	})
}

func containerStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// crashLoop is the kubelet's reason for a container whose restart is delayed.
const crashLoop = "CrashLoopBackOff"

// containerFinding returns why a container that should run is not ready, if known.
func containerFinding(pod *corev1.Pod, s *corev1.ContainerStatus) finding {
	last := s.LastTerminationState.Terminated
	switch {
	case s.State.Waiting != nil && (s.Name == render.GuardContainer || s.Name == render.GateContainer):
		return guardUnavailable(pod, s)
	case s.State.Waiting != nil:
		return waitingFinding(pod, s)
	case s.Name == render.GuardContainer:
		return guardFinding(pod, s)
	case s.Name == render.GateContainer:
		return gateFinding(pod, s)
	case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
		return finding{restartReason(s.State.Terminated), "The desktop " + endedText(s.State.Terminated) + " and is started again"}
	case s.State.Running == nil || s.Ready:
		return finding{}
	case s.Started != nil && *s.Started && !neverReady(pod, s):
		return finding{api.ReasonPodNotReady, fmt.Sprintf("The desktop runs on node %s but does not answer on its port", pod.Spec.NodeName)}
	case s.RestartCount > 0 && last != nil:
		return finding{restartReason(last), fmt.Sprintf("The desktop %s and was started again (restart %d)", endedText(last), s.RestartCount)}
	default:
		return finding{api.ReasonStarting, fmt.Sprintf("The desktop runs on node %s and does not answer on its port yet", pod.Spec.NodeName)}
	}
}

// guardFinding returns the finding of a started guard: the desktop waits for its lease.
func guardFinding(pod *corev1.Pod, s *corev1.ContainerStatus) finding {
	if s.Started != nil && *s.Started || s.State.Running == nil {
		return finding{}
	}
	return finding{api.ReasonStarting, fmt.Sprintf("The guard on node %s waits until the agent permits the desktop to start", pod.Spec.NodeName)}
}

// neverReady reports whether a guarded desktop, which has no startup probe, was not ready
// since it was started.
func neverReady(pod *corev1.Pod, s *corev1.ContainerStatus) bool {
	if !render.Guarded(pod) || s.State.Running == nil {
		return false
	}
	return !PodCondition(pod, corev1.PodReady).LastTransitionTime.After(s.State.Running.StartedAt.Time)
}

// restartReason returns the reason of a desktop that ended and restarts. OutOfMemory is
// reported at once, since the user has lost unsaved work.
func restartReason(t *corev1.ContainerStateTerminated) string {
	if outOfMemory(t) {
		return api.ReasonOutOfMemory
	}
	return api.ReasonStarting
}

// waitingFinding returns the finding of a container that the kubelet has not started, or not
// restarted yet.
func waitingFinding(pod *corev1.Pod, s *corev1.ContainerStatus) finding {
	w, last := s.State.Waiting, s.LastTerminationState.Terminated
	_, ofImage := imageReasons[w.Reason]
	switch {
	case ofImage:
		return finding{api.ReasonImagePull, fmt.Sprintf("The image %s can't be pulled (%s)", image(pod, s), pullError(w))}
	case containerReasons[w.Reason]:
		return finding{api.ReasonContainerError, fmt.Sprintf("The container can't be created (%s)", waitingText(w))}
	case w.Reason == crashLoop && last != nil:
		reason := api.ReasonCrashLoop
		if outOfMemory(last) {
			reason = api.ReasonOutOfMemory
		}
		return finding{reason, fmt.Sprintf("The desktop %s, %d times by now", endedText(last), s.RestartCount)}
	case w.Reason == crashLoop:
		return finding{api.ReasonCrashLoop, "The desktop ends repeatedly"}
	default:
		return finding{}
	}
}

// neverPulled reports whether a container's image can never be pulled.
func neverPulled(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && imageReasons[s.State.Waiting.Reason]
	})
}

// restarts returns the most restarts of a container that is not running.
func restarts(pod *corev1.Pod) int32 {
	var most int32
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil {
			most = max(most, s.RestartCount)
		}
	}
	return most
}

// image returns the image in the Pod's spec: that in the status may be missing, or named by
// the runtime.
func image(pod *corev1.Pod, s *corev1.ContainerStatus) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == s.Name {
			return c.Image
		}
	}
	return s.Image
}

// pullError returns why an image can't be pulled, with the same text for ErrImagePull and
// ImagePullBackOff, between which the kubelet alternates.
func pullError(w *corev1.ContainerStateWaiting) string {
	const tried = "ErrImagePull"
	if w.Reason == tried && w.Message != "" {
		return cause(w.Message)
	}
	if _, after, found := strings.Cut(w.Message, tried+": "); found {
		return cause(after)
	}
	return waitingText(w)
}

func waitingText(w *corev1.ContainerStateWaiting) string {
	if w.Message == "" {
		return w.Reason
	}
	return cause(w.Reason + ": " + w.Message)
}

func outOfMemory(t *corev1.ContainerStateTerminated) bool { return t.Reason == "OOMKilled" }

// endedText returns how a container ended, as the end of "The desktop ...".
func endedText(t *corev1.ContainerStateTerminated) string {
	switch {
	case outOfMemory(t):
		return "ran out of its memory limit"
	case t.Signal != 0:
		return fmt.Sprintf("was ended by signal %d", t.Signal)
	default:
		return fmt.Sprintf("ended with exit code %d", t.ExitCode)
	}
}
