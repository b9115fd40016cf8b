package status

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// ToRun reports whether the desktop is to run according to the status.
func ToRun(s *v1alpha1.VDISession) bool {
	return s.Status.Placement != nil && !s.Status.Placement.Idle
}

// StopReason is why a session's desktop is not to run.
type StopReason string

const (
	// NotStopped means that the desktop is to run.
	NotStopped StopReason = ""
	// StopSuspended means that spec.operatingMode is Suspended.
	StopSuspended StopReason = "Suspended"
	// StopFailed means that the current attempt failed permanently, and spec.attempt
	// requests no further one.
	StopFailed StopReason = "Failed"
	// StopExpired means that the session's time is used up.
	StopExpired StopReason = "Expired"
)

// StopReasonOf returns the first reason that applies. If the member is away, the hub's
// clock decides about the time limit, since no report of the agent does.
func StopReasonOf(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, away bool, now time.Time) StopReason {
	switch {
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		return StopSuspended
	case FailedPermanently(s) != nil && s.Spec.Attempt <= s.Status.Attempt:
		return StopFailed
	case TimeOver(s, t), away && overdue(s, t, now):
		return StopExpired
	}
	return NotStopped
}
