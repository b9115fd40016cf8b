package status

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// SetTrue sets a condition of a session to True, and reports whether that changed anything.
func SetTrue(s *v1alpha1.VDISession, condition, reason, message string) bool {
	return set(s, condition, metav1.ConditionTrue, reason, message)
}

// SetFalse is like SetTrue, with False.
func SetFalse(s *v1alpha1.VDISession, condition, reason, message string) bool {
	return set(s, condition, metav1.ConditionFalse, reason, message)
}

// SetUnknown is like SetTrue, with Unknown.
func SetUnknown(s *v1alpha1.VDISession, condition, reason, message string) bool {
	return set(s, condition, metav1.ConditionUnknown, reason, message)
}

func set(s *v1alpha1.VDISession, condition string, status metav1.ConditionStatus, reason, message string) bool {
	return v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message})
}

// SetSending marks the start of a run that the member has not stored yet, and drops what
// the member reported of earlier ones.
func SetSending(s *v1alpha1.VDISession) {
	s.Status.Conditions = DropAgentConditions(s.Status.Conditions)
	s.Status.Placement.Guarded, s.Status.IdleSince = false, nil
	showSending(s)
}

// showSending shows that the member has not stored the assignment yet.
func showSending(s *v1alpha1.VDISession) {
	SetFalse(s, v1alpha1.ConditionAssigned, v1alpha1.ReasonSending,
		fmt.Sprintf("sent to %s: waiting until its API server has stored it", s.Status.Placement.ClusterName))
}

// DropAgentConditions removes the conditions that an agent reported of an earlier
// placement.
func DropAgentConditions(conditions []metav1.Condition) []metav1.Condition {
	for _, name := range append(AgentConditions[:len(AgentConditions):len(AgentConditions)], v1alpha1.ConditionProgressing) {
		v1alpha1.RemoveCondition(&conditions, name)
	}
	return conditions
}

// Settled reports whether nothing is known to be left to do for a session: it runs, and its only
// member has stored what its spec requires.
func Settled(s *v1alpha1.VDISession) bool {
	assigned := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned)
	return s.Status.Phase == v1alpha1.PhaseRunning && s.DeletionTimestamp.IsZero() && len(Outstanding(s)) == 1 &&
		assigned != nil && assigned.Status == metav1.ConditionTrue && assigned.ObservedGeneration == s.Generation
}

// ShowsPending reports whether the status shows why no member fits this generation of the session.
func ShowsPending(s *v1alpha1.VDISession) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled)
	return c != nil && c.Reason == v1alpha1.ReasonUnschedulable && c.ObservedGeneration == s.Generation
}

// Starts reports whether a user waits for the session to run, and it has not been found to fit nowhere yet:
// very many may wait for capacity.
func Starts(s *v1alpha1.VDISession) bool {
	return s.DeletionTimestamp.IsZero() && !meta.IsStatusConditionFalse(s.Status.Conditions, v1alpha1.ConditionScheduled) &&
		slices.Contains([]v1alpha1.SessionPhase{"", v1alpha1.PhasePending, v1alpha1.PhaseCreating}, s.Status.Phase)
}

// Shows reports whether the status of a settled session shows what its member reports of it: an
// active assignment of this epoch, of which the agent has not ended anything, and the agent's conditions.
func Shows(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) bool {
	if reported.Status.State != v1alpha1.AssignmentActive || reported.Spec.Epoch != s.Status.Placement.Epoch ||
		reported.Status.Failure != nil || reported.TimeExpired() {
		return false
	}
	for _, name := range AgentConditions {
		is, shown := meta.FindStatusCondition(reported.Status.Conditions, name), meta.FindStatusCondition(s.Status.Conditions, name)
		if is != nil && (shown == nil || is.Status != shown.Status || is.Reason != shown.Reason) {
			return false
		}
	}
	return true
}

// FailedPermanently returns the condition Progressing of a session whose current attempt
// the agent has ended, or nil.
func FailedPermanently(s *v1alpha1.VDISession) *metav1.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionProgressing)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return c
}

// Retrying reports whether a session that failed permanently is to start its next attempt.
func Retrying(s *v1alpha1.VDISession) bool {
	return s.Status.Placement != nil && FailedPermanently(s) != nil && s.Spec.Attempt > s.Status.Attempt &&
		s.Spec.OperatingMode != v1alpha1.ModeSuspended
}

// AgentConditions are the condition types that agents report.
var AgentConditions = []string{
	v1alpha1.ConditionHomeReady,
	v1alpha1.ConditionPodReady,
	v1alpha1.ConditionEndpointReady,
}

// removalDenied returns the condition PodReady if the member's API server denies the
// removal of the Pod, or nil.
func removalDenied(s *v1alpha1.VDISession) *metav1.Condition {
	pod := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady)
	if pod == nil || pod.Reason != v1alpha1.ReasonApplyFailed {
		return nil
	}
	return pod
}

// Seconds truncates a time as the API server stores it. A status that is written must
// equal the one that is read back, or every reconcile would find a difference.
func Seconds(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }

// UnscheduledReason returns the reason of Scheduled=False, or "".
func UnscheduledReason(s *v1alpha1.VDISession) string {
	if meta.IsStatusConditionFalse(s.Status.Conditions, v1alpha1.ConditionScheduled) {
		return ReasonOf(s, v1alpha1.ConditionScheduled)
	}
	return ""
}

// ReasonOf returns the reason of a condition, or "" if it is not set.
func ReasonOf(s *v1alpha1.VDISession, name string) string {
	if c := meta.FindStatusCondition(s.Status.Conditions, name); c != nil {
		return c.Reason
	}
	return ""
}
