package observe

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Pod is the condition PodReady. The first case that holds is the answer.
func Pod(a *api.SessionAssignment, f Found) metav1.Condition {
	pod := f.Pod
	switch {
	case pod == nil && a.Spec.RunState == api.ModeSuspended:
		return notReady(api.ReasonSuspended, "The session is suspended: set its operating mode to Running to go on.")
	case a.GivenUp():
		return notReady(a.Status.Failure.Reason, a.Status.Failure.Message)
	case f.PodProblem != nil:
		return f.PodProblem.condition(api.ConditionPodReady)
	case pod == nil:
		return absent(f)
	case f.NodeLost && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded:
		return notReady(api.ReasonNodeLost, nodeLost(pod))
	case pod.DeletionTimestamp != nil:
		return notReady(api.ReasonPodTerminating, terminating(pod))
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == evicted:
		return notReady(api.ReasonEvicted, failed(pod))
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return notReady(api.ReasonPodFailed, failed(pod))
	case pod.Spec.NodeName == "":
		return unbound(pod)
	case podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue:
		return isTrue(api.ConditionPodReady, api.ReasonPodReady, "The desktop runs on node "+pod.Spec.NodeName+".")
	default:
		return starting(pod)
	}
}

// evicted is the kubelet's reason for a Pod that it ended to save its node.
const evicted = "Evicted"

// absent says what a Pod waits for that is not made.
func absent(f Found) metav1.Condition {
	switch {
	case f.HomeProblem != nil || f.OtherUser != "":
		return notReady(api.ReasonPodPending, "The Pod waits for the home.")
	case f.ConfigProblem != nil:
		return notReady(f.ConfigProblem.Reason, f.ConfigProblem.Message)
	case len(f.Secrets) > 0:
		return notReady(api.ReasonSecretMissing, fmt.Sprintf("The Pod waits for the hub to send %s.", strings.Join(f.Secrets, ", ")))
	default:
		return notReady(api.ReasonPodPending, "The Pod is not made yet.")
	}
}

func nodeLost(pod *corev1.Pod) string {
	return fmt.Sprintf("Node %s does not answer, and nobody knows whether the desktop still runs there: "+
		"bring the node back, delete the Node object if it is gone for good, taint it %s if it is off, "+
		"or delete the session and annotate it %s.", pod.Spec.NodeName, corev1.TaintNodeOutOfService, api.AnnotationForceCleanup)
}

func notReady(reason, message string) metav1.Condition {
	return isFalse(api.ConditionPodReady, reason, message)
}

// unbound is a Pod without a node.
func unbound(pod *corev1.Pod) metav1.Condition {
	c := podCondition(pod, corev1.PodScheduled)
	if c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return notReady(api.ReasonUnschedulablePod, "No node fits the Pod: "+sentence(c.Message))
	}
	if c.Message != "" {
		return notReady(api.ReasonPodPending, "The Pod waits for a node: "+sentence(c.Message))
	}
	return notReady(api.ReasonPodPending, "The Pod waits for a node.")
}

// starting is a Pod with a node that is not ready: its containers say why,
// the first that has something to say.
func starting(pod *corev1.Pod) metav1.Condition {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if reason, message := container(pod, &statuses[i]); reason != "" {
				return notReady(reason, message)
			}
		}
	}
	return notReady(api.ReasonStarting, "The desktop starts on node "+pod.Spec.NodeName+".")
}

// failed says why a Pod ended for good.
func failed(pod *corev1.Pod) string {
	why := pod.Status.Reason
	if pod.Status.Message != "" {
		why = strings.TrimPrefix(why+": "+pod.Status.Message, ": ")
	}
	if why == "" {
		why = lastWords(pod)
	}
	return "The Pod ended, a new one is made: " + sentence(why)
}

func lastWords(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return ended(s.State.Terminated)
		}
	}
	return "no reason was given"
}

func terminating(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "The Pod is being removed."
	}
	return fmt.Sprintf("The Pod is being stopped by node %s.", pod.Spec.NodeName)
}

// podCondition is the Pod's condition of a type, or an empty one.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// sentence ends a text with a full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}
