package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// Duration is a length of time in hours, minutes, seconds and milliseconds, such as "8h",
// "90m" or "1h30m". It is a string and not a metav1.Duration, so that one invalid value
// does not break the decoding of a typed List: admission rejects invalid values, and
// Value treats one that is stored anyway as absent. The rule limits the digits of each
// unit, so that no sum overflows time.Duration.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="size(self) > 0 && self.matches('^([0-9]{1,6}([.][0-9]{1,3})?h)?([0-9]{1,7}([.][0-9]{1,3})?m)?([0-9]{1,9}([.][0-9]{1,3})?s)?([0-9]{1,12}ms)?$')",message="must be a duration in hours, minutes and seconds, such as 8h, 90m or 1h30m"
type Duration string

// Value returns the duration, and false if it is empty or malformed.
func (d Duration) Value() (time.Duration, bool) {
	if d == "" {
		return 0, false
	}
	v, err := time.ParseDuration(string(d))
	if err != nil || v < 0 {
		return 0, false
	}
	return v, true
}

// longestDuration is the longest duration that admission accepts: 114 years.
const longestDuration = 999_999 * time.Hour

// DurationOf formats a duration for the API: in milliseconds precision, from 0 to
// 999999h.
func DurationOf(d time.Duration) Duration {
	d = min(max(d, 0), longestDuration)
	return Duration(d.Truncate(time.Millisecond).String())
}

// For returns the limit of a session that requests one: that, or the default, at most the maximum. It is
// empty if there is none.
func (l TimeLimit) For(requested Duration) Duration {
	d, ok := requested.Value()
	if ok && d == 0 && l.Unlimited {
		return ""
	}
	if !ok || d == 0 {
		requested = l.Default
		d, ok = requested.Value()
	}
	most, limited := l.Max.Value()
	switch {
	case limited && most > 0 && (!ok || d == 0 || d > most):
		return l.Max
	case !ok || d == 0:
		return ""
	}
	return requested
}

// defaultStartTimeout is the start timeout of a desktop whose template has none.
const defaultStartTimeout = 5 * time.Minute

// StartTime returns how long the desktop may take to open its port.
func (d *Desktop) StartTime() time.Duration {
	if limit, ok := d.StartTimeout.Value(); ok && limit > 0 {
		return limit
	}
	return defaultStartTimeout
}

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
