package messages

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// State is the state of a session as its user sees it.
type State string

// The states. Each is also the word beside its symbol, and a class of the stylesheet.
const (
	// Running: the desktop can be opened.
	Running State = "running"
	// Starting: the session has a region, and its desktop is not ready there.
	Starting State = "starting"
	// Waiting: no region has capacity for the session yet, or something else must happen first.
	Waiting State = "waiting"
	// Suspended: the user suspended the session.
	Suspended State = "suspended"
	// Interrupted: the session's region does not answer.
	Interrupted State = "interrupted"
	// Ended: a time limit ended the session, and its user may continue it.
	Ended State = "ended"
	// Failed: the session does not run until its user or an administrator changes something.
	Failed State = "failed"
	// Ending: the session is being deleted.
	Ending State = "ending"
)

// ended are the reasons of Ready of a session that a time limit ended.
var ended = map[string]bool{
	v1alpha1.ReasonTimeExpired: true,
	v1alpha1.ReasonIdleExpired: true,
}

// StateOf returns the state of a session.
func StateOf(s *v1alpha1.VDISession) State {
	ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	switch phase := v1alpha1.PhaseOf(s.Status.Conditions, !s.DeletionTimestamp.IsZero(), s.Spec.OperatingMode); {
	case phase == v1alpha1.PhaseTerminating:
		return Ending
	case ready != nil && ended[ready.Reason]:
		return Ended
	case phase == v1alpha1.PhaseFailed:
		return Failed
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		return Suspended
	case interrupted(ready):
		return Interrupted
	case phase == v1alpha1.PhaseRunning:
		return Running
	case phase == v1alpha1.PhaseCreating:
		return Starting
	default:
		return Waiting
	}
}

// interrupted reports whether the session's member is unreachable.
func interrupted(ready *metav1.Condition) bool {
	return ready != nil && (ready.Reason == v1alpha1.ReasonMemberUnreachable || ready.Reason == v1alpha1.ReasonFailoverPending)
}
