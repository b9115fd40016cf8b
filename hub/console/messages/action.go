package messages

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Action is what a user can do with a session. It is the last part of the path that does it.
type Action string

// The actions.
const (
	// Open shows the desktop.
	Open Action = "open"
	// Wake resumes a suspended session.
	Wake Action = "wake"
	// Suspend stops the desktop, and keeps everything that resuming it needs.
	Suspend Action = "suspend"
	// Extend gives the session another ExtendBy, which also revives one whose time is over.
	Extend Action = "extend"
	// Retry starts the next attempt.
	Retry Action = "retry"
	// End deletes the session.
	End Action = "end"
)

// ExtendBy is the time that Extend adds.
const ExtendBy = time.Hour

// actionsOf returns the actions of a session, the likeliest first. The template is nil if it does not
// exist any more.
func actionsOf(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, state State, reason string) []Action {
	var out []Action
	switch state {
	case Running:
		out = append(out, Open)
		if s.Status.ExpirationTime != nil && mayExtend(s, t) {
			out = append(out, Extend)
		}
		out = append(out, Suspend)
	case Suspended:
		out = append(out, Wake)
	case Ended:
		switch {
		case reason == v1alpha1.ReasonIdleExpired:
			out = append(out, Retry)
		case mayExtend(s, t):
			out = append(out, Extend)
		}
	case Failed:
		if s.Status.Epoch > 0 {
			out = append(out, Retry)
		}
	case Ending:
		return nil
	}
	return append(out, End)
}

// Extended returns the time limit that the session has once it is extended, and whether its template
// allows that.
func Extended(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (v1alpha1.Duration, bool) {
	if t == nil {
		return "", false
	}
	limit, limited := t.Timeout.For(s.Spec.Timeout).Value()
	if !limited {
		return "", false
	}
	most, bounded := t.Timeout.Max.Value()
	longer := limit + ExtendBy
	if bounded && most > 0 {
		longer = min(longer, most)
	}
	return v1alpha1.DurationOf(longer), longer > limit
}

func mayExtend(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) bool {
	_, ok := Extended(s, t)
	return ok
}
