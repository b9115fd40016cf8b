package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failing are the reasons of a False condition that end a session rather than delay it.
var failing = map[string]bool{
	ReasonTimeExpired: true,
}

// PhaseOf returns the phase for a session's conditions, deletion and operating mode.
// Nothing else decides the phase.
func PhaseOf(conditions []metav1.Condition, deleting bool, mode OperatingMode) SessionPhase {
	if deleting {
		return PhaseTerminating
	}
	placed := meta.IsStatusConditionTrue(conditions, ConditionScheduled)
	// A change that is not accepted does not end a session that is already placed.
	if c := meta.FindStatusCondition(conditions, ConditionAccepted); c != nil && c.Status == metav1.ConditionFalse && !placed {
		return PhaseFailed
	}
	if mode == ModeSuspended {
		return PhasePending
	}
	if !placed {
		return PhasePending
	}
	if meta.IsStatusConditionFalse(conditions, ConditionProgressing) {
		return PhaseFailed
	}
	ready := meta.FindStatusCondition(conditions, ConditionReady)
	switch {
	case ready == nil:
		return PhaseCreating
	case ready.Status == metav1.ConditionTrue, ready.Status == metav1.ConditionUnknown:
		// Ready is Unknown only if the session was ready at its member's last heartbeat.
		return PhaseRunning
	case failing[ready.Reason]:
		return PhaseFailed
	default:
		return PhaseCreating
	}
}

// SetCondition sets a condition with its observed generation, and reports whether it
// changed.
func SetCondition(conditions *[]metav1.Condition, generation int64, c metav1.Condition) bool {
	c.ObservedGeneration = generation
	return meta.SetStatusCondition(conditions, c)
}

// RemoveCondition removes a condition, if it is there: meta.RemoveStatusCondition copies the
// others in any case.
func RemoveCondition(conditions *[]metav1.Condition, kind string) {
	if meta.FindStatusCondition(*conditions, kind) != nil {
		meta.RemoveStatusCondition(conditions, kind)
	}
}
