package status

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
)

// FailoverFor merges the failover settings of the session, its policy (may be nil) and the
// defaults. A session with a home is always Hold: any other mode would lose its data.
func FailoverFor(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, policy *v1alpha1.PlacementPolicy) v1alpha1.SessionFailover {
	out := s.Spec.Failover
	if policy != nil {
		theirs := &policy.Spec.Failover
		out.Mode, out.After, out.Healing = cmp.Or(out.Mode, theirs.Mode), cmp.Or(out.After, theirs.After), cmp.Or(out.Healing, theirs.Healing)
	}
	out.Mode, out.Healing = cmp.Or(out.Mode, v1alpha1.FailoverRestart), cmp.Or(out.Healing, v1alpha1.HealKeepReplacement)
	if HasHome(t) || s.Status.Home != nil {
		out.Mode = v1alpha1.FailoverHold
	}
	if out.Mode != v1alpha1.FailoverRestart {
		out.Healing = v1alpha1.HealKeepReplacement
	}
	return out
}

// FailoverMode returns the failover mode of the session's placement, or the one that its
// next placement would have.
func FailoverMode(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.FailoverMode {
	if p := s.Status.Placement; p != nil && p.FailoverMode != "" {
		return p.FailoverMode
	}
	return FailoverFor(s, t, nil).Mode
}

// LossOf returns what the failover rules need of a session whose member may be lost. policy may
// be nil.
func LossOf(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, policy *v1alpha1.PlacementPolicy) failover.Session {
	f := FailoverFor(s, t, policy)
	out := failover.Session{Mode: f.Mode}
	if at := s.Status.Placement; at != nil {
		out.Mode, out.Guarded = FailoverMode(s, t), at.Guarded
	}
	if after, ok := f.After.Value(); ok {
		out.After = &after
	}
	return out
}

// FailoverPending returns the condition that shows what a session that waits for its failover
// waits for, or nil.
func FailoverPending(s *v1alpha1.VDISession) *metav1.Condition {
	for _, name := range []string{v1alpha1.ConditionAssigned, v1alpha1.ConditionScheduled} {
		if c := meta.FindStatusCondition(s.Status.Conditions, name); c != nil && c.Reason == v1alpha1.ReasonFailoverPending {
			return c
		}
	}
	return nil
}

// awaitingFailover returns Ready of a session that waits for its failover, or nil. Ready
// is Unknown if the desktop was ready when its member was lost.
func awaitingFailover(s *v1alpha1.VDISession) *metav1.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned)
	if c == nil || c.Reason != v1alpha1.ReasonFailoverPending {
		return nil
	}
	ready := newReady(metav1.ConditionUnknown, c.Reason, c.Message)
	if firstMissing(s, AgentConditions) != nil {
		ready.Status = metav1.ConditionFalse
	}
	return ready
}

// recovered records that a session is ready again after its failover.
func recovered(s *v1alpha1.VDISession, now time.Time) {
	if f := s.Status.LastFailover; f != nil && f.RecoveredTime == nil {
		at := Seconds(now)
		f.RecoveredTime = &at
	}
}

// HasHome reports whether sessions of the template have a home.
func HasHome(t *v1alpha1.TemplateSpec) bool {
	return t.Home.Mode == v1alpha1.HomePerSession || t.Home.Mode == v1alpha1.HomePerUser
}

// ReleasedMode returns the failover mode of a released copy: that of its placement, unless the
// session sets one. An edited policy takes effect with the next placement only.
func ReleasedMode(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, policy *v1alpha1.PlacementPolicy, o *v1alpha1.Release) v1alpha1.FailoverMode {
	if s.Spec.Failover.Mode == "" && o.FailoverMode != "" {
		return o.FailoverMode
	}
	return FailoverFor(s, t, policy).Mode
}
