package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// mirrorLease copies the member's lapse number and guard state into the placement. The
// guard state counts only if the member has stored the current assignment: until then
// it may be that of another mode.
//
// A member whose lease lapsed stops its Fence desktops, and a restarted agent holds its
// Hold desktops, until the hub affirms by the same lapse number that they may run. The
// affirmation and a new placement are writes of one object under optimistic lock:
// whichever is second fails.
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

// leaseUrgent reports whether a change must be written at once: a desktop waits for its
// affirmation, or has lost its guard.
func leaseUrgent(before, after *v1alpha1.Placement) bool {
	return after.Lapse > before.Lapse || before.Guarded && !after.Guarded
}

// showGuard sets FailoverReady=False on a Fence session that runs without a guard.
func showGuard(s *v1alpha1.VDISession) {
	at := s.Status.Placement
	if at == nil || at.Idle || at.FailoverMode != v1alpha1.FailoverFence || at.Guarded ||
		!meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionPodReady) {
		v1alpha1.RemoveCondition(&s.Status.Conditions, v1alpha1.ConditionFailoverReady)
		return
	}
	SetFalse(s, v1alpha1.ConditionFailoverReady, v1alpha1.ReasonUnguarded,
		"no guard runs beside the desktop in "+at.ClusterName+": if that member is lost the session is held as with mode Hold; "+
			"start its agent with --guard-image, and the session again (raise spec.attempt)")
}

// MirrorIdle records since when the desktop has been idle, by the hub's clock: the
// member's may differ by hours. Agents report idleness once it has lasted for idleAfter.
func MirrorIdle(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, now time.Time, idleAfter time.Duration) {
	switch {
	case reported.Status.IdleSince == nil || !ToRun(s):
		s.Status.IdleSince = nil
	case s.Status.IdleSince == nil:
		since := Seconds(now.Add(-idleAfter))
		s.Status.IdleSince = &since
	}
}
