package observe

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Kinds are the agent's conditions, in the order in which they become true.
var Kinds = []string{api.ConditionHomeReady, api.ConditionPodReady, api.ConditionEndpointReady}

// Status returns the new status of an assignment from its children and its current status.
func Status(a *api.SessionAssignment, f Children, now time.Time) api.SessionAssignmentStatus {
	s := begin(a, api.AssignmentActive)
	if !a.FailedPermanently() {
		s.Failure = nil
		api.RemoveCondition(&s.Conditions, api.ConditionProgressing)
	}
	for _, c := range []metav1.Condition{Home(a, f), Pod(a, f), Endpoint(a, f)} {
		set(&s, a, c, now)
	}
	s.NodeName = nodeName(f.Pod)
	s.Config = config(f)
	s.MissingSecrets = slices.Clone(f.Secrets)
	if s.StartTime == nil && meta.IsStatusConditionTrue(s.Conditions, api.ConditionPodReady) {
		s.StartTime = readySince(f.Pod, now)
	}
	if s.Failure != nil {
		s.Reason, s.Message = s.Failure.Reason, s.Failure.Message
		set(&s, a, isFalse(api.ConditionProgressing, s.Reason, s.Message), now)
	} else {
		s.Reason, s.Message = foremost(s.Conditions)
	}
	return s
}

// Stopping returns the status of a withdrawn assignment while its Pod or the described other
// children exist. The home's condition does not change.
func Stopping(a *api.SessionAssignment, f Children, left []string, now time.Time) api.SessionAssignmentStatus {
	s := begin(a, api.AssignmentStopping)
	s.Reason, s.Message = api.ReasonPodTerminating, "The Pod is gone, the other objects are being removed."
	switch {
	case f.Denied != "":
		s.Reason, s.Message = api.ReasonApplyFailed, truncate(f.Denied, maxMessage)
	case f.Pod != nil && (f.NodeLost || f.StopUnknown):
		s.Reason, s.Message = api.ReasonNodeLost, lost(f)
	case f.Pod != nil:
		s.Message = terminating(f.Pod)
	case len(left) > 0:
		s.Message = truncate("The Pod is gone, the other objects are being removed: "+strings.Join(left, "; "), maxMessage-1) + "."
	}
	set(&s, a, notReady(s.Reason, s.Message), now)
	set(&s, a, isFalse(api.ConditionEndpointReady, api.ReasonTerminating, "The endpoint is removed with the session."), now)
	s.NodeName = nodeName(f.Pod)
	s.MissingSecrets = nil
	return s
}

// configHashLength is in hexadecimal digits.
const configHashLength = 16

// config returns the ConfigMap that the member has, if it is the assignment's.
func config(f Children) *api.AssignedConfig {
	if f.Config == nil || f.ConfigProblem != nil && f.ConfigProblem.Reason == api.ReasonConflict {
		return nil
	}
	data := make(map[string][]byte, len(f.Config.Data))
	for key, value := range f.Config.Data {
		data[key] = []byte(value)
	}
	return &api.AssignedConfig{Name: f.Config.Name, Hash: api.SecretDataHash(data)[:configHashLength]}
}

// Ready reports whether all of the agent's conditions are true.
func Ready(s api.SessionAssignmentStatus) bool {
	return !slices.ContainsFunc(Kinds, func(kind string) bool { return !meta.IsStatusConditionTrue(s.Conditions, kind) })
}

func begin(a *api.SessionAssignment, state api.AssignmentState) api.SessionAssignmentStatus {
	s := *a.Status.DeepCopy()
	s.ObservedGeneration = a.Generation
	s.State = state
	return s
}

// set sets a condition with a short message, and a time in whole seconds, as the API stores
// it.
func set(s *api.SessionAssignmentStatus, a *api.SessionAssignment, c metav1.Condition, now time.Time) {
	c.Message = truncate(c.Message, maxMessage)
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
	since := PodCondition(pod, corev1.PodReady).LastTransitionTime
	if since.IsZero() {
		since = metav1.NewTime(now.Truncate(time.Second))
	}
	return &since
}

// foremost returns the reason and message of the first condition with a problem, or else of
// the first that is not True.
func foremost(conditions []metav1.Condition) (reason, message string) {
	isNotTrue := func(c metav1.Condition) bool { return c.Status != metav1.ConditionTrue }
	for _, wanted := range []func(metav1.Condition) bool{IsTrouble, isNotTrue} {
		for _, kind := range Kinds {
			if c := meta.FindStatusCondition(conditions, kind); c != nil && wanted(*c) {
				return c.Reason, c.Message
			}
		}
	}
	return "", ""
}
