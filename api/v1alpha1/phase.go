package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failing are the reasons with which a condition that is False ends a session
// rather than delays it.
var failing = map[string]bool{
	ReasonTimeExpired: true,
}

// PhaseOf derives the phase from the conditions, whether the session is being
// deleted, and its operating mode. Nothing else decides a phase.
func PhaseOf(conditions []metav1.Condition, deleting bool, mode OperatingMode) SessionPhase {
	if deleting {
		return PhaseTerminating
	}
	placed := meta.IsStatusConditionTrue(conditions, ConditionScheduled)
	// A change that is refused does not end a session that was placed before.
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
		// Unknown is only ever said of a session that was ready when its
		// member sent its last heartbeat.
		return PhaseRunning
	case failing[ready.Reason]:
		return PhaseFailed
	default:
		return PhaseCreating
	}
}

// SetCondition stamps the generation that a condition speaks of and sets it;
// it reports whether anything changed.
func SetCondition(conditions *[]metav1.Condition, generation int64, c metav1.Condition) bool {
	c.ObservedGeneration = generation
	return meta.SetStatusCondition(conditions, c)
}
