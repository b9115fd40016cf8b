package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// warnAtMost is the longest time between the warning of a user and the end of the
// session.
const warnAtMost = 5 * time.Minute

// WarnBefore returns how long before a time limit ends a session its user is warned: a
// fifth of the limit, at most five minutes.
func WarnBefore(limit time.Duration) time.Duration {
	return min(limit/5, warnAtMost)
}

// Idle reports whether the assignment holds no slot: nothing of it runs, and nothing is
// to run until the hub changes its spec.
func (a *SessionAssignment) Idle() bool {
	return a.Spec.RunState == ModeSuspended || a.FailedPermanently() || a.TimeExpired()
}

// TimeExpired reports whether the agent stopped the desktop at its timeout.
func (a *SessionAssignment) TimeExpired() bool {
	pod := meta.FindStatusCondition(a.Status.Conditions, ConditionPodReady)
	return pod != nil && pod.Reason == ReasonTimeExpired
}

// FailedPermanently reports whether the assignment's current attempt failed permanently.
func (a *SessionAssignment) FailedPermanently() bool {
	return a.Status.Failure != nil && a.Status.Failure.Attempt >= a.Spec.Attempt
}
