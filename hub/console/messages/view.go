package messages

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// View is what a user sees of a session.
type View struct {
	// State of the session.
	State State
	// Sentence says why the session is not running, and what follows; or what its user should know of
	// one that is. Empty if there is nothing to say.
	Sentence string
	// Details is the message for administrators of what Sentence is about. May be empty.
	Details string
	// Since is when the session came into the condition that Sentence is about, zero if that is not
	// recorded.
	Since time.Time
	// Region of the session's placement, empty without one.
	Region string
	// Ends is when the session reaches its time limit, zero without a limit or while it does not run.
	Ends time.Time
	// Steps to the desktop of a session that is starting, waiting or failed.
	Steps []Step
	// Actions that the user has, the likeliest first.
	Actions []Action
}

// Can reports whether the user has an action.
func (v View) Can(a Action) bool { return slices.Contains(v.Actions, a) }

// Of returns the view of a session. The template is that of the session's name, nil if it does not exist
// any more.
func Of(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) View {
	state := StateOf(s)
	ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		ready = &metav1.Condition{Reason: v1alpha1.ReasonAccepted, LastTransitionTime: s.CreationTimestamp}
	}
	v := View{
		State:   state,
		Details: ready.Message,
		Since:   ready.LastTransitionTime.Time,
		Actions: actionsOf(s, t, state, ready.Reason),
	}
	if p := s.Status.Placement; p != nil {
		v.Region = p.Region
	}
	if end := s.Status.ExpirationTime; end != nil {
		v.Ends = end.Time
	}
	v.Sentence = sentence(s, state, ready.Reason)
	switch state {
	case Running:
		v.running(s, ready.Reason)
	case Starting, Waiting, Failed:
		v.Steps = steps(s, state)
	}
	return v
}

// podReason returns the reason of PodReady.
func podReason(s *v1alpha1.VDISession) string {
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady); c != nil {
		return c.Reason
	}
	return ""
}

// running leaves what a user should know of a session that runs.
func (v *View) running(s *v1alpha1.VDISession, reason string) {
	accepted := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAccepted)
	switch {
	case accepted != nil && accepted.Status == metav1.ConditionFalse:
		v.Sentence, v.Details = unchanged+text(accepted.Reason), accepted.Message
	case reason == v1alpha1.ReasonExpiringSoon && podReason(s) == v1alpha1.ReasonIdleSoon:
		v.Sentence = text(v1alpha1.ReasonIdleSoon)
	case reason == v1alpha1.ReasonReady:
		v.Sentence, v.Details = "", ""
	}
}

// sentence returns what a user reads of a state and the reason of it.
func sentence(s *v1alpha1.VDISession, state State, reason string) string {
	if state == Failed {
		if failure, ok := failures[reason]; ok {
			return failure
		}
	}
	switch {
	case state == Ending:
		return text(v1alpha1.ReasonTerminating)
	case state == Waiting && reason == v1alpha1.ReasonStarting:
		return text(v1alpha1.ReasonAccepted)
	case reason == v1alpha1.ReasonFailoverPending && holds(s):
		return held
	}
	return text(reason)
}

// text returns the sentence of a reason.
func text(reason string) string {
	if found, ok := sentences[reason]; ok {
		return found
	}
	return unknown
}

// holds reports whether the session stays with its member until that is known to be stopped.
func holds(s *v1alpha1.VDISession) bool {
	p := s.Status.Placement
	return p != nil && (p.FailoverMode == v1alpha1.FailoverHold || p.FailoverMode == v1alpha1.FailoverFence && !p.Guarded)
}
