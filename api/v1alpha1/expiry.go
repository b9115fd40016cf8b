package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// warnAtMost is the longest time before the end of a session at which its user
// is warned.
const warnAtMost = 5 * time.Minute

// WarnBefore is how long before a limit ends a session its user is warned: a
// fifth of the limit, and no more than five minutes.
func WarnBefore(limit time.Duration) time.Duration {
	return min(limit/5, warnAtMost)
}

// Idle reports whether nothing of an assignment runs, nor is to run until the
// hub says so: then it holds no slot.
func (a *SessionAssignment) Idle() bool {
	return a.Spec.RunState == ModeSuspended || a.GivenUp() || a.TimeExpired()
}

// TimeExpired reports whether the agent has ended the desktop because its
// timeout has passed.
func (a *SessionAssignment) TimeExpired() bool {
	pod := meta.FindStatusCondition(a.Status.Conditions, ConditionPodReady)
	return pod != nil && pod.Reason == ReasonTimeExpired
}

// GivenUp reports whether the agent has ended the attempt that the
// assignment asks for.
func (a *SessionAssignment) GivenUp() bool {
	return a.Status.Failure != nil && a.Status.Failure.Attempt >= a.Spec.Attempt
}
