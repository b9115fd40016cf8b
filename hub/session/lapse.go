package session

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// DefaultIdleAfter is for how long a desktop is not used before its agent says so.
const DefaultIdleAfter = 5 * time.Minute

// A member whose lease has lapsed stops its Fence desktops, and does not let them
// run again by itself: meanwhile the hub may have placed them anew. Neither does one
// whose agent has begun anew start its Hold desktops: an operator may have declared
// it fenced while it was off. It asks, with the number of the lapse, and the hub
// affirms by the same number in the placement that the desktop may run. That number
// and a new placement are two writes of one object under one lock: whichever is
// first, the other fails.

// mirrorLease affirms a placement that its member asks for, whatever the mode, and
// notes whether a guard runs beside the desktop. stored is whether what is reported is of the very
// assignment that is wanted: then what it says of a guard is of this mode.
func mirrorLease(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, stored bool) {
	at := s.Status.Placement
	if reported.Spec.Epoch != at.Epoch {
		return
	}
	at.Lapse = max(at.Lapse, reported.Status.Lapse)
	switch fence := at.FailoverMode == v1alpha1.FailoverFence; {
	case !fence || !reported.Status.Guarded:
		at.Guarded = false
	case stored:
		at.Guarded = true
	}
}

// urgent is whether what was mirrored of a lease is not to wait for more: a desktop
// stands still, or is less safe than it was.
func urgent(before, after *v1alpha1.Placement) bool {
	return after.Lapse > before.Lapse || before.Guarded && !after.Guarded
}

// showGuard says of a Fence session that runs without a guard that it is held.
func showGuard(s *v1alpha1.VDISession) {
	at := s.Status.Placement
	if at == nil || at.Idle || at.FailoverMode != v1alpha1.FailoverFence || at.Guarded ||
		!meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionPodReady) {
		meta.RemoveStatusCondition(&s.Status.Conditions, v1alpha1.ConditionFailoverReady)
		return
	}
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionFailoverReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnguarded,
		Message: "no guard runs beside the desktop in " + at.ClusterName + ": if that member is lost the session is held as with mode Hold; " +
			"start its agent with --guard-image, and the session anew (raise spec.attempt)",
	})
}

// mirrorIdle notes since when the desktop has not been used, by the hub's clock:
// the member's may differ by hours. It is told once it was not for idleAfter.
func mirrorIdle(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, now time.Time, idleAfter time.Duration) {
	switch {
	case reported.Status.IdleSince == nil || !toRun(s):
		s.Status.IdleSince = nil
	case s.Status.IdleSince == nil:
		since := seconds(now.Add(-idleAfter))
		s.Status.IdleSince = &since
	}
}

// recovered notes that a session that was placed anew is ready again.
func recovered(s *v1alpha1.VDISession, now time.Time) {
	if f := s.Status.LastFailover; f != nil && f.RecoveredTime == nil {
		at := seconds(now)
		f.RecoveredTime = &at
	}
}
