package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Patience is how long an attempt is retried before it fails.
type Patience struct {
	// FailAfter is how long.
	FailAfter time.Duration
	// Restarts of a desktop that ends again and again, at the least.
	Restarts int32
	// Endings in a row of Pods that end by themselves, at the least.
	Endings int
}

// FailureOf returns why an assignment's attempt has failed, or nil, and when to check again
// without an event, or zero. The status is what Status has just made of what was found,
// and endings how many Pods have ended in a row.
//
// A desktop that is ready never fails.
func FailureOf(a *api.SessionAssignment, f Found, status api.SessionAssignmentStatus, endings int, p Patience, now time.Time) (*api.Failure, time.Duration) {
	ready := meta.FindStatusCondition(status.Conditions, api.ConditionPodReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return nil, 0
	}
	if invalid := firstInvalid(f); invalid != nil {
		return failure(a, invalid.Reason, cause(invalid.Message), "correct the template or the session"), 0
	}
	found, ok := trouble(f)
	if !ok || f.Pod != nil && ready.Reason != found.reason && found.reason != api.ReasonClaimLost {
		// Something else counts for more: the Pod is being removed, or its node
		// is lost.
		return nil, 0
	}
	r, permanent := rules[found.reason]
	if !permanent {
		return nil, 0
	}
	given := failure(a, found.reason, found.what, r.remedy)
	if r.patience == atOnce || found.reason == api.ReasonImagePull && neverPulled(f.Pod) {
		return given, 0
	}
	if wait := since(a, f.Pod, ready, r.patience).Add(p.FailAfter).Sub(now); wait > 0 {
		return nil, wait
	}
	if !r.patience.exhausted(f.Pod, status, endings, p) {
		// That is followed by an event of the Pod.
		return nil, 0
	}
	return given, 0
}

// exhausted reports whether nothing more is needed than the time that has passed.
func (patience patience) exhausted(pod *corev1.Pod, status api.SessionAssignmentStatus, endings int, p Patience) bool {
	switch patience {
	case forRestarts:
		return restarts(pod) >= p.Restarts
	case forEndings:
		return endings >= p.Endings
	case untilReady:
		return status.RunningSince == nil
	default:
		return true
	}
}

// Fail puts a failure into a status that is to be written before anything is
// removed. The Pod counts as there until a pass finds that it is gone.
func Fail(s *api.SessionAssignmentStatus, a *api.SessionAssignment, f *api.Failure, now time.Time) {
	given := *f
	given.Message = cut(given.Message, maxMessage)
	s.Failure = &given
	set(s, a, isFalse(api.ConditionProgressing, given.Reason, given.Message), now)
	set(s, a, notReady(api.ReasonPodTerminating, "The session failed permanently: what is left of it is being removed."), now)
	s.Reason, s.Message = given.Reason, given.Message
}

func failure(a *api.SessionAssignment, reason, what, remedy string) *api.Failure {
	tail := ": " + remedy + ", then raise spec.attempt."
	return &api.Failure{Attempt: a.Spec.Attempt, Reason: reason, Message: cut(what, maxMessage-len(tail)) + tail}
}

// firstInvalid returns the first child that the API server will never take.
func firstInvalid(f Found) *Problem {
	for _, p := range []*Problem{
		f.HomeProblem, f.ConfigProblem, f.PodProblem, f.ServiceProblem, f.IngressProblem, f.RouteProblem, f.PolicyProblem, f.BudgetProblem,
	} {
		if p != nil && p.Invalid {
			return p
		}
	}
	return nil
}

// trouble returns what is wrong with home or Pod.
func trouble(f Found) (finding, bool) {
	switch {
	case f.HomeProblem == nil && f.Home != nil && isLost(f.Home):
		return claimLost(f.Home), true
	case f.Pod == nil:
		return finding{}, false
	default:
		return unready(f.Pod), true
	}
}

// since returns when the trouble may have begun at the earliest, so that nothing
// else is counted: not the time that the Pod waited for a node and its volumes,
// nor that in which a desktop may still start. The clocks of others may be
// ahead, and then it only takes longer.
func since(a *api.SessionAssignment, pod *corev1.Pod, ready *metav1.Condition, p patience) time.Time {
	begin := ready.LastTransitionTime.Time
	later := func(t metav1.Time) {
		if t.After(begin) {
			begin = t.Time
		}
	}
	if p == forEndings {
		// Each Pod is a new one.
		return begin
	}
	later(pod.CreationTimestamp)
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers} {
		if c := PodCondition(pod, kind); c.Status == corev1.ConditionTrue {
			later(c.LastTransitionTime)
		}
	}
	if p == untilReady {
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Running != nil {
				later(s.State.Running.StartedAt)
			}
		}
		begin = begin.Add(a.Spec.Desktop.StartTime())
	}
	return begin
}
