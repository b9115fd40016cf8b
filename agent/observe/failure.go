package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// RetryLimits are when an attempt fails.
type RetryLimits struct {
	// FailAfter is how long a problem must last.
	FailAfter time.Duration
	// Restarts is how often a desktop that ends repeatedly must have been restarted.
	Restarts int32
	// Endings is how many Pods in a row must have ended by themselves.
	Endings int
}

// FailureOf returns why an assignment's attempt has failed, or nil, and the delay before the
// next check, or zero. The status is from Status, and endings is how many Pods have ended in
// a row. A ready desktop never fails.
func FailureOf(a *api.SessionAssignment, f Children, status api.SessionAssignmentStatus, endings int, limits RetryLimits, now time.Time) (*api.Failure, time.Duration) {
	ready := meta.FindStatusCondition(status.Conditions, api.ConditionPodReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return nil, 0
	}
	if invalid := firstInvalid(f); invalid != nil {
		return failure(a, invalid.Reason, cause(invalid.Message), "correct the template or the session"), 0
	}
	found, ok := homeOrPodFinding(f)
	if !ok || f.Pod != nil && ready.Reason != found.reason && found.reason != api.ReasonClaimLost {
		// Another reason is more important: the Pod is being removed, or its node is lost.
		return nil, 0
	}
	r, permanent := rules[found.reason]
	if !permanent {
		return nil, 0
	}
	failed := failure(a, found.reason, found.what, r.remedy)
	if r.policy == immediately || found.reason == api.ReasonImagePull && neverPulled(f.Pod) {
		return failed, 0
	}
	if wait := since(a, f.Pod, ready, r.policy).Add(limits.FailAfter).Sub(now); wait > 0 {
		return nil, wait
	}
	if !r.policy.exhausted(f.Pod, status, endings, limits) {
		// An event of the Pod will follow.
		return nil, 0
	}
	return failed, 0
}

// exhausted reports whether the attempt fails, given that FailAfter has passed.
func (p failurePolicy) exhausted(pod *corev1.Pod, status api.SessionAssignmentStatus, endings int, limits RetryLimits) bool {
	switch p {
	case afterRestarts:
		return restarts(pod) >= limits.Restarts
	case afterEndings:
		return endings >= limits.Endings
	case ifNeverReady:
		return status.RunningSince == nil
	default:
		return true
	}
}

// Fail sets a failure in a status, which is written before anything is removed. The Pod
// counts as existing until a pass finds that it is gone.
func Fail(s *api.SessionAssignmentStatus, a *api.SessionAssignment, f *api.Failure, now time.Time) {
	failure := *f
	failure.Message = truncate(failure.Message, maxMessage)
	s.Failure = &failure
	set(s, a, isFalse(api.ConditionProgressing, failure.Reason, failure.Message), now)
	set(s, a, notReady(api.ReasonPodTerminating, "The session failed permanently: its Pod is being removed."), now)
	s.Reason, s.Message = failure.Reason, failure.Message
}

func failure(a *api.SessionAssignment, reason, what, remedy string) *api.Failure {
	tail := ": " + remedy + ", then raise spec.attempt."
	return &api.Failure{Attempt: a.Spec.Attempt, Reason: reason, Message: truncate(what, maxMessage-len(tail)) + tail}
}

// firstInvalid returns the problem of the first child that the API server never accepts.
func firstInvalid(f Children) *Problem {
	for _, p := range []*Problem{
		f.HomeProblem, f.ConfigProblem, f.PodProblem, f.ServiceProblem, f.IngressProblem, f.RouteProblem, f.PolicyProblem, f.BudgetProblem,
	} {
		if p != nil && p.Invalid {
			return p
		}
	}
	return nil
}

// homeOrPodFinding returns the finding of the home or the Pod, if any.
func homeOrPodFinding(f Children) (finding, bool) {
	switch {
	case f.HomeProblem == nil && f.Home != nil && isLost(f.Home):
		return claimLost(f.Home), true
	case f.Pod == nil:
		return finding{}, false
	default:
		return podFinding(f.Pod, f.Growth), true
	}
}

// since returns when the problem may have begun at the earliest. It excludes the time in
// which the Pod waited for a node and volumes, and in which a desktop may start. If other
// clocks are ahead, an attempt only fails later.
func since(a *api.SessionAssignment, pod *corev1.Pod, ready *metav1.Condition, p failurePolicy) time.Time {
	begin := ready.LastTransitionTime.Time
	later := func(t metav1.Time) {
		if t.After(begin) {
			begin = t.Time
		}
	}
	if p == afterEndings { // Each Pod is a new one.
		return begin
	}
	later(pod.CreationTimestamp)
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers} {
		if c := PodCondition(pod, kind); c.Status == corev1.ConditionTrue {
			later(c.LastTransitionTime)
		}
	}
	if p == ifNeverReady {
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Running != nil {
				later(s.State.Running.StartedAt)
			}
		}
		begin = begin.Add(a.Spec.Desktop.StartTime())
	}
	return begin
}
