package observe

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Pod returns the condition PodReady: the first case that holds. A failure's reason is set
// only once there is no Pod: the hub then releases the desktop's capacity and home.
func Pod(a *api.SessionAssignment, f Children) metav1.Condition {
	switch pod := f.Pod; {
	case pod == nil:
		return absent(a, f)
	case (f.NodeLost || f.StopUnknown) && !isReady(pod):
		return notReady(api.ReasonNodeLost, lost(f))
	case pod.DeletionTimestamp != nil, a.FailedPermanently():
		return notReady(api.ReasonPodTerminating, terminating(pod))
	}
	if f.Denied != "" {
		return notReady(api.ReasonApplyFailed, f.Denied)
	}
	if p := cmp.Or(f.PodProblem, f.ConfigProblem, f.BudgetProblem); p != nil {
		return p.condition(api.ConditionPodReady)
	}
	if isReady(f.Pod) {
		return isTrue(api.ConditionPodReady, api.ReasonPodReady, "The desktop runs on node "+f.Pod.Spec.NodeName+".")
	}
	found, waits := awaitsHub(a, f.Pod)
	if !waits {
		found = podFinding(f.Pod, f.Growth)
	}
	return notReady(found.reason, found.message())
}

// absent returns why there is no Pod.
func absent(a *api.SessionAssignment, f Children) metav1.Condition {
	problem := cmp.Or(f.PodProblem, f.ConfigProblem, f.BudgetProblem, f.PolicyProblem)
	switch {
	case a.FailedPermanently():
		return notReady(a.Status.Failure.Reason, a.Status.Failure.Message)
	case a.Spec.RunState == api.ModeSuspended:
		return notReady(api.ReasonSuspended, "The session is suspended: set its operating mode to Running to go on.")
	case problem != nil:
		return problem.condition(api.ConditionPodReady)
	case f.HomeProblem != nil || f.OtherUser != "":
		return notReady(api.ReasonPodPending, "The Pod waits for the home.")
	case len(f.Secrets) > 0:
		return notReady(api.ReasonSecretMissing, fmt.Sprintf(
			"The Pod waits for the hub to resend Secrets that are missing or were changed: %s.", strings.Join(f.Secrets, ", ")))
	default:
		return notReady(api.ReasonPodPending, "The Pod is not created yet.")
	}
}

// podFinding returns why an existing Pod is not ready.
func podFinding(pod *corev1.Pod, growth Growth) finding {
	switch {
	case Ended(pod):
		return failed(pod)
	case pod.Spec.NodeName == "":
		return unbound(pod, growth)
	default:
		return starting(pod)
	}
}

func notReady(reason, message string) metav1.Condition {
	return isFalse(api.ConditionPodReady, reason, message)
}

// Ended reports whether a Pod has ended for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func isReady(pod *corev1.Pod) bool {
	return !Ended(pod) && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" &&
		PodCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// unbound returns the finding of a Pod without a node.
func unbound(pod *corev1.Pod, growth Growth) finding {
	c := PodCondition(pod, corev1.PodScheduled)
	if c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		if found, depends := growth.finding(); depends {
			return found
		}
		return finding{api.ReasonUnschedulablePod, "No node fits the Pod: " + c.Message}
	}
	if c.Message != "" {
		return finding{api.ReasonPodPending, "The Pod waits for a node: " + c.Message}
	}
	return finding{api.ReasonPodPending, "The Pod waits for a node"}
}

// starting returns the finding of a bound Pod that is not ready: that of the first container
// with a reason.
func starting(pod *corev1.Pod) finding {
	for _, s := range containerStatuses(pod) {
		if found := containerFinding(pod, &s); found.reason != "" {
			return found
		}
	}
	return finding{api.ReasonStarting, "The desktop starts on node " + pod.Spec.NodeName}
}

// failed returns why a Pod ended for good.
func failed(pod *corev1.Pod) finding {
	why := pod.Status.Reason
	if pod.Status.Message != "" {
		why = strings.TrimPrefix(why+": "+pod.Status.Message, ": ")
	}
	why = cmp.Or(why, terminationText(pod))
	if pod.Status.Reason == "Evicted" {
		what := strings.TrimPrefix(why, "Evicted: ")
		return finding{api.ReasonEvicted, fmt.Sprintf("Node %s was short of a resource and evicted the Pod, a new one is created (%s)", pod.Spec.NodeName, cause(what))}
	}
	return finding{api.ReasonPodFailed, fmt.Sprintf("The Pod ended, a new one is created (%s)", cause(why))}
}

func terminationText(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return endedText(s.State.Terminated)
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

// lost returns the remedy for a Pod whose node does not answer: only an operator can check
// whether the desktop still runs there.
func lost(f Children) string {
	pod := f.Pod
	switch {
	case f.StopUnknown:
		return fmt.Sprintf("Node %s is gone, and its kubelet has not reported that the desktop stopped: "+
			"once the machine is off for good, run kubectl annotate pod -n %s %s %s=<why>.",
			pod.Spec.NodeName, pod.Namespace, pod.Name, api.AnnotationForceCleanup)
	case !f.RecreateAt.IsZero():
		return fmt.Sprintf("Node %s does not answer: bring it back, or the desktop restarts on another node at %s.",
			pod.Spec.NodeName, f.RecreateAt.UTC().Format(time.TimeOnly))
	}
	return fmt.Sprintf("Node %s does not answer: bring it back. If it is off for good, taint it %s=nodeshutdown:NoExecute. "+
		"To delete the session without that confirmation, annotate it %s.",
		pod.Spec.NodeName, corev1.TaintNodeOutOfService, api.AnnotationForceCleanup)
}

// PodCondition returns the Pod's condition of a type, or an empty one.
func PodCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}
