package observe

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Node is the state of a Pod's node.
type Node struct {
	// Known is set if there is a Node object.
	Known bool
	// Ready is set if its kubelet answers.
	Ready bool
	// Since is when that last changed, if known.
	Since time.Time
	// OutOfService is set if an operator has tainted it as shut down.
	OutOfService bool
}

// Lost reports whether a node does not answer.
func (n Node) Lost() bool { return n.Known && !n.Ready }

// Stopped reports whether nothing of a Pod that is being deleted runs: it never had a node,
// its kubelet has reported so, or an operator asserts it, by the out-of-service taint of a
// node that is not ready or by annotation of the Pod. Neither a forced deletion nor the
// deletion of its Node proves it.
func Stopped(pod *corev1.Pod, node Node) bool {
	switch {
	case pod.DeletionTimestamp == nil:
		return false
	case pod.Spec.NodeName == "", pod.Annotations[api.AnnotationForceCleanup] != "":
		return true
	case node.Lost() && node.OutOfService:
		return true
	}
	return reportedStopped(pod)
}

// reportedStopped reports whether the kubelet has reported that a Pod ended. The kubelet
// makes the phase terminal only once no container runs, and restarts none then. The Pod
// garbage collector makes it terminal without stopping containers: a Pod that it collected
// has ended only if each container is reported as terminated.
func reportedStopped(pod *corev1.Pod) bool {
	if !Ended(pod) {
		return false
	}
	states := containerStatuses(pod)
	if slices.ContainsFunc(states, func(s corev1.ContainerStatus) bool { return s.State.Running != nil }) {
		return false
	}
	if PodCondition(pod, corev1.DisruptionTarget).Reason != reasonPodGC {
		return true
	}
	return len(pod.Status.ContainerStatuses) == len(pod.Spec.Containers) &&
		!slices.ContainsFunc(states, func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil })
}

// reasonPodGC is the Pod garbage collector's reason for a Pod whose Node is gone.
const reasonPodGC = "DeletionByPodGC"
