package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Kinds are the agent's conditions, in the order in which they come true.
var Kinds = []string{api.ConditionHomeReady, api.ConditionPodReady, api.ConditionEndpointReady}

// Status is what the agent says of an assignment whose children are found as
// given. It begins from the status that the assignment has, which it does not
// change.
func Status(a *api.SessionAssignment, f Found, now time.Time) api.SessionAssignmentStatus {
	s := begin(a, api.AssignmentActive)
	for _, c := range []metav1.Condition{Home(a, f), Pod(a, f), Endpoint(a, f)} {
		set(&s, a, c, now)
	}
	s.NodeName = nodeName(f.Pod)
	if s.StartTime == nil && meta.IsStatusConditionTrue(s.Conditions, api.ConditionPodReady) {
		s.StartTime = readySince(f.Pod, now)
	}
	s.Reason, s.Message = foremost(s.Conditions)
	return s
}

// Stopping is what the agent says of a withdrawn assignment while its Pod is
// not gone. The home's condition stays as it was: the home does.
func Stopping(a *api.SessionAssignment, pod *corev1.Pod, now time.Time) api.SessionAssignmentStatus {
	s := begin(a, api.AssignmentStopping)
	message := "The Pod is gone, the rest is being removed."
	if pod != nil {
		message = terminating(pod)
	}
	set(&s, a, isFalse(api.ConditionPodReady, api.ReasonPodTerminating, message), now)
	set(&s, a, isFalse(api.ConditionEndpointReady, api.ReasonTerminating, "Service and Ingress are removed with the session."), now)
	s.NodeName = nodeName(pod)
	s.Reason, s.Message = api.ReasonPodTerminating, message
	return s
}

// Ready reports whether all of the agent's conditions are true.
func Ready(s api.SessionAssignmentStatus) bool {
	for _, kind := range Kinds {
		if !meta.IsStatusConditionTrue(s.Conditions, kind) {
			return false
		}
	}
	return true
}

func begin(a *api.SessionAssignment, state api.AssignmentState) api.SessionAssignmentStatus {
	s := *a.Status.DeepCopy()
	s.ObservedGeneration = a.Generation
	s.State = state
	return s
}

// set keeps whole seconds, as the API does: a finer time would differ from
// itself once it was stored.
func set(s *api.SessionAssignmentStatus, a *api.SessionAssignment, c metav1.Condition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	api.SetCondition(&s.Conditions, a.Generation, c)
}

func nodeName(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Spec.NodeName
}

func readySince(pod *corev1.Pod, now time.Time) *metav1.Time {
	since := podCondition(pod, corev1.PodReady).LastTransitionTime
	if since.IsZero() {
		since = metav1.NewTime(now.Truncate(time.Second))
	}
	return &since
}

// foremost is the reason and message of the condition that a reader should
// hear of first: a trouble before what is merely not done yet, and of equals
// the earlier step. Empty if all are true.
func foremost(conditions []metav1.Condition) (reason, message string) {
	for _, wanted := range []func(metav1.Condition) bool{IsTrouble, isNotTrue} {
		for _, kind := range Kinds {
			if c := meta.FindStatusCondition(conditions, kind); c != nil && wanted(*c) {
				return c.Reason, c.Message
			}
		}
	}
	return "", ""
}

func isNotTrue(c metav1.Condition) bool { return c.Status != metav1.ConditionTrue }
