package status

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The transitions of a session, as the messages by which they are logged once they are
// durable. They are listed in deploy/observability/README.md.
const (
	TransitionPhase           = "Session phase changed"
	TransitionUnschedulable   = "Session is pending"
	TransitionPlaced          = "Session placed"
	TransitionFailedOver      = "Session failed over"
	TransitionFailoverPending = "Session waits for failover"
	TransitionAdopted         = "Session adopted under a higher epoch"
	TransitionRestarted       = "Session restarted"
	TransitionStopped         = "Session stopped"
	TransitionUnplaced        = "Placement released"
	TransitionStopConfirmed   = "Stop confirmed"
	TransitionDeleted         = "Session deleted"
)

// Transition is a change of a session's phase or placement: a log message and its
// key-value pairs.
type Transition struct {
	// Message is one of the constants above. Values are key-value pairs.
	Message string
	Values  []any
}

// Transitions returns the transitions that the write of a status has made.
func Transitions(before, after *v1alpha1.VDISession, now time.Time) []Transition {
	var out []Transition
	if t := PlacementTransition(before, after); t != nil {
		out = append(out, *t)
	}
	for _, left := range before.Status.Releasing {
		still := func(r v1alpha1.Release) bool { return r.ClusterUID == left.ClusterUID && r.Epoch >= left.Epoch }
		if !slices.ContainsFunc(after.Status.Releasing, still) {
			out = append(out, Transition{TransitionStopConfirmed, []any{"member", left.ClusterName, "epoch", left.Epoch}})
		}
	}
	if pending := FailoverPending(after); pending != nil && FailoverPending(before) == nil && after.Status.Placement != nil {
		out = append(out, Transition{TransitionFailoverPending, append(PlacementValues(after), "reason", pending.Message)})
	}
	if from, to := before.Status.Phase, after.Status.Phase; from != to {
		values := append(PlacementValues(after), "from", string(from), "to", string(to), "reason", ReasonOf(after, v1alpha1.ConditionReady))
		if to == v1alpha1.PhaseRunning && RunStarts(before, after) {
			values = append(values, "duration", now.Sub(RunRequested(before)).String())
		}
		out = append(out, Transition{TransitionPhase, values})
	}
	return out
}

// PlacementTransition returns the transition of the placement, or nil if it did not change.
func PlacementTransition(before, after *v1alpha1.VDISession) *Transition {
	was, is := before.Status.Placement, after.Status.Placement
	values := PlacementValues(after)
	switch {
	case was == nil && is == nil:
		if why := UnscheduledReason(after); why != "" && why != UnscheduledReason(before) {
			return &Transition{TransitionUnschedulable, []any{"reason", why}}
		}
		return nil
	case was == nil:
		if is.Epoch == 1 {
			values = append(values, "duration", is.PlacementTime.Sub(after.CreationTimestamp.Time).String())
		}
		return &Transition{TransitionPlaced, append(values, "region", is.Region, "policy", is.Policy, "reason", ReasonOf(after, v1alpha1.ConditionScheduled))}
	case is == nil:
		return &Transition{TransitionUnplaced, append(PlacementValues(before), "reason", ReasonOf(after, v1alpha1.ConditionReady))}
	case was.Epoch != is.Epoch && PlacedByFailover(after):
		f := after.Status.LastFailover
		return &Transition{TransitionFailedOver, append(values, "from", was.ClusterName, "to", is.ClusterName,
			"reason", f.Reason, "duration", f.Time.Sub(f.LostTime.Time).String())}
	case was.Epoch != is.Epoch:
		return &Transition{TransitionAdopted, append(values, "from", was.Epoch, "to", is.Epoch)}
	case was.Run != is.Run:
		return &Transition{TransitionRestarted, append(values, "from", was.Run, "to", is.Run, "reason", ReasonOf(after, v1alpha1.ConditionScheduled))}
	case is.Idle && !was.Idle:
		return &Transition{TransitionStopped, append(values, "reason", ReasonOf(after, v1alpha1.ConditionReady))}
	}
	return nil
}

// PlacementValues returns the log values of a session's placement, or nil.
func PlacementValues(s *v1alpha1.VDISession) []any {
	p := s.Status.Placement
	if p == nil {
		return nil
	}
	return []any{"member", p.ClusterName, "epoch", p.Epoch, "run", max(1, p.Run)}
}

// PlacedByFailover reports whether the session's placement is from a failover.
func PlacedByFailover(s *v1alpha1.VDISession) bool {
	p, f := s.Status.Placement, s.Status.LastFailover
	return p != nil && f != nil && f.Time.Equal(&p.PlacementTime) && f.FromEpoch < p.Epoch
}

// RunStarts reports whether a write shows the desktop of this run ready for the first
// time.
func RunStarts(before, after *v1alpha1.VDISession) bool {
	return before.Status.Placement != nil && sameRun(before, after) &&
		before.Status.RunningSince == nil && after.Status.RunningSince != nil
}

// RunMissed reports whether a write ends a run that never was ready.
func RunMissed(before, after *v1alpha1.VDISession) bool {
	p := before.Status.Placement
	if p == nil || p.Idle || before.Status.RunningSince != nil || before.Status.Phase == v1alpha1.PhaseTerminating ||
		ReasonOf(before, v1alpha1.ConditionPodReady) == v1alpha1.ReasonTimeExpired {
		return false
	}
	return !sameRun(before, after) || after.Status.Placement.Idle || after.Status.Phase == v1alpha1.PhaseTerminating
}

func sameRun(before, after *v1alpha1.VDISession) bool {
	was, is := before.Status.Placement, after.Status.Placement
	return was != nil && is != nil && was.Epoch == is.Epoch && was.Run == is.Run
}

// RunRequested returns when a placed session's run was requested: when the session was
// created, its member sent its last heartbeat, or its resume or placement was written.
func RunRequested(s *v1alpha1.VDISession) time.Time {
	p := s.Status.Placement
	assigned := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned)
	switch {
	case p.Run > 1 && assigned != nil:
		return assigned.LastTransitionTime.Time
	case PlacedByFailover(s):
		return s.Status.LastFailover.LostTime.Time
	case p.Epoch == 1 && p.Run <= 1:
		return s.CreationTimestamp.Time
	}
	return p.PlacementTime.Time
}
