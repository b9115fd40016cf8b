package session

import (
	"context"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
)

// failoverOf is what holds for a session when its member is lost: what it says
// itself, else its policy, which may be nil, else what its home asks for. With a
// home nothing but Hold loses no data, whoever asks for more.
func failoverOf(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, policy *v1alpha1.PlacementPolicy) v1alpha1.SessionFailover {
	out := s.Spec.Failover
	if policy != nil {
		theirs := &policy.Spec.Failover
		out.Mode, out.After, out.Healing = or(out.Mode, theirs.Mode), or(out.After, theirs.After), or(out.Healing, theirs.Healing)
	}
	out.Mode, out.Healing = or(out.Mode, v1alpha1.FailoverRestart), or(out.Healing, v1alpha1.HealKeepReplacement)
	if hasHome(t) || s.Status.Home != nil {
		out.Mode = v1alpha1.FailoverHold
	}
	if out.Mode != v1alpha1.FailoverRestart {
		out.Healing = v1alpha1.HealKeepReplacement
	}
	return out
}

// or is a text, or another where it is empty.
func or[T ~string](a, b T) T {
	if a == "" {
		return b
	}
	return a
}

// checkFailover refuses a mode that would lose what is in the session's home.
func checkFailover(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	mode := s.Spec.Failover.Mode
	if mode == "" || mode == v1alpha1.FailoverHold || !hasHome(t) {
		return "", ""
	}
	return v1alpha1.ReasonFailoverLosesHome, fmt.Sprintf(
		"spec.failover.mode %s would lose what is in the home that template %q gives the session: set it to Hold or leave it out, or name a template without a home",
		mode, s.Spec.Template)
}

// failoverMode is the mode that the session's member is told. A placement of an
// earlier hub does not name one.
func failoverMode(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.FailoverMode {
	if p := s.Status.Placement; p != nil && p.FailoverMode != "" {
		return p.FailoverMode
	}
	return failoverOf(s, t, nil).Mode
}

// mode keeps the failover mode of a session that is placed as its spec has it.
// An edit of a policy changes it with the next placement. That a guard runs beside
// the desktop is told anew of another mode.
func (r *Reconciler) mode(ctx context.Context, p *pass) (next, error) {
	s := p.session
	at := s.Status.Placement
	if at == nil || s.Spec.Failover.Mode == "" && s.Status.ObservedGeneration == s.Generation {
		return goOn, nil
	}
	var policy *v1alpha1.PlacementPolicy
	if s.Spec.Failover.Mode == "" {
		var err error
		if policy, err = r.placedBy(ctx, p); err != nil {
			return done, err
		}
	}
	if mode := failoverOf(s, p.spec, policy).Mode; failoverMode(s, p.spec) != mode {
		at.FailoverMode, at.Guarded = mode, false
	}
	return goOn, nil
}

// lossOf is what decides over a session whose member may be lost.
func lossOf(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, f v1alpha1.SessionFailover) failover.Session {
	out := failover.Session{Mode: f.Mode}
	if at := s.Status.Placement; at != nil {
		out.Mode, out.Guarded = failoverMode(s, t), at.Guarded
	}
	if after, ok := f.After.Value(); ok {
		out.After = &after
	}
	return out
}
