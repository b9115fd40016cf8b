package observe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	s.NodeName, s.MissingSecrets, s.Config = nodeName(f.Pod), f.Secrets, config(f)
	if a.GivenUp() {
		Fail(&s, a, a.Status.Failure, now)
		return s
	}
	s.Failure = nil
	meta.RemoveStatusCondition(&s.Conditions, api.ConditionProgressing)
	if s.StartTime == nil && meta.IsStatusConditionTrue(s.Conditions, api.ConditionPodReady) {
		s.StartTime = readySince(f.Pod, now)
	}
	s.Reason, s.Message = foremost(s.Conditions)
	return s
}

// Stopping is what the agent says of a withdrawn assignment while its Pod, or
// what is named besides, is left. The home's condition stays as it was: the home
// does.
func Stopping(a *api.SessionAssignment, f Found, left []string, now time.Time) api.SessionAssignmentStatus {
	s := begin(a, api.AssignmentStopping)
	pod, message := f.Pod, "The Pod is gone, the rest is being removed."
	switch {
	case pod != nil && f.NodeLost:
		message = nodeLost(pod)
	case pod != nil:
		message = terminating(pod)
	}
	if len(left) > 0 {
		message += " Still there: " + sentence(strings.Join(left, "; "))
	}
	message = short(message)
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
	c.Message = short(c.Message)
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	api.SetCondition(&s.Conditions, a.Generation, c)
}

// config names the ConfigMap that the desktop has, with a hash of its content.
func config(f Found) *api.AssignedConfig {
	if f.Config == nil || f.ConfigProblem != nil {
		return nil
	}
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(f.Config.Data)) {
		fmt.Fprintf(hash, "%q=%q\n", key, f.Config.Data[key])
	}
	return &api.AssignedConfig{Name: f.Config.Name, Hash: hex.EncodeToString(hash.Sum(nil)[:8])}
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
