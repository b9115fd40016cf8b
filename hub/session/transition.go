package session

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The transitions of a session, each a line of the log once it is durable. They
// are listed in deploy/observability/README.md.
const (
	transitionPhase     = "Session changed its phase"
	transitionWaits     = "Session waits for a place"
	transitionPlaced    = "Session was placed"
	transitionFailover  = "Session failed over"
	transitionPending   = "Session waits for its failover"
	transitionAdopted   = "Session was adopted under a higher epoch"
	transitionRuns      = "Session is to run again"
	transitionRests     = "Session is to rest"
	transitionUnplaced  = "Session was given up where it was"
	transitionConfirmed = "Session's stop was confirmed"
	transitionGone      = "Session is gone"
)

// transition is a change of a session's phase or placement.
type transition struct {
	// message is one of the constants above, values are pairs of key and value.
	message string
	values  []any
}

// transitions are what the write of a status has changed. A write that changes
// neither phase nor placement is none.
func transitions(before, after *v1alpha1.VDISession, now time.Time) []transition {
	var out []transition
	if t := placementTransition(before, after); t != nil {
		out = append(out, *t)
	}
	for _, left := range before.Status.Releasing {
		if !releases(after, left) {
			out = append(out, transition{transitionConfirmed, []any{"member", left.ClusterName, "epoch", left.Epoch}})
		}
	}
	if pendingFailover(after) && !pendingFailover(before) && after.Status.Placement != nil {
		out = append(out, transition{transitionPending, append(whereValues(after), "reason", failoverMessage(after))})
	}
	if from, to := before.Status.Phase, after.Status.Phase; from != to {
		values := append(whereValues(after), "from", string(from), "to", string(to), "reason", reasonOf(after, v1alpha1.ConditionReady))
		if to == v1alpha1.PhaseRunning && startsRun(before, after) {
			values = append(values, "duration", now.Sub(walkBegan(before)).String())
		}
		out = append(out, transition{transitionPhase, values})
	}
	return out
}

// placementTransition is what became of the placement; nil: it is as it was.
func placementTransition(before, after *v1alpha1.VDISession) *transition {
	was, is := before.Status.Placement, after.Status.Placement
	values := whereValues(after)
	switch {
	case was == nil && is == nil:
		if why := waitsFor(after); why != "" && why != waitsFor(before) {
			return &transition{transitionWaits, []any{"reason", why}}
		}
		return nil
	case was == nil:
		if is.Epoch == 1 {
			values = append(values, "duration", is.PlacementTime.Sub(after.CreationTimestamp.Time).String())
		}
		return &transition{transitionPlaced, append(values, "region", is.Region, "policy", is.Policy, "reason", reasonOf(after, v1alpha1.ConditionScheduled))}
	case is == nil:
		return &transition{transitionUnplaced, append(whereValues(before), "reason", reasonOf(after, v1alpha1.ConditionReady))}
	case was.Epoch != is.Epoch && failedOver(after):
		f := after.Status.LastFailover
		return &transition{transitionFailover, append(values, "from", was.ClusterName, "to", is.ClusterName,
			"reason", f.Reason, "duration", f.Time.Sub(f.LostTime.Time).String())}
	case was.Epoch != is.Epoch:
		return &transition{transitionAdopted, append(values, "from", was.Epoch, "to", is.Epoch)}
	case was.Run != is.Run:
		return &transition{transitionRuns, append(values, "from", was.Run, "to", is.Run, "reason", reasonOf(after, v1alpha1.ConditionScheduled))}
	case is.Idle && !was.Idle:
		return &transition{transitionRests, append(values, "reason", reasonOf(after, v1alpha1.ConditionReady))}
	}
	return nil
}

// whereValues say where a session is placed; none where it is not.
func whereValues(s *v1alpha1.VDISession) []any {
	p := s.Status.Placement
	if p == nil {
		return nil
	}
	return []any{"member", p.ClusterName, "epoch", p.Epoch, "run", max(1, p.Run)}
}

// waitsFor is the reason why a session has no place; empty: nobody has said.
func waitsFor(s *v1alpha1.VDISession) string {
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled); c != nil && c.Status == metav1.ConditionFalse {
		return c.Reason
	}
	return ""
}

func reasonOf(s *v1alpha1.VDISession, name string) string {
	if c := meta.FindStatusCondition(s.Status.Conditions, name); c != nil {
		return c.Reason
	}
	return ""
}

func releases(s *v1alpha1.VDISession, left v1alpha1.Release) bool {
	for _, r := range s.Status.Releasing {
		if r.ClusterUID == left.ClusterUID && r.Epoch >= left.Epoch {
			return true
		}
	}
	return false
}

// failedOver is whether it is a failover that gave the session its placement.
func failedOver(s *v1alpha1.VDISession) bool {
	p, f := s.Status.Placement, s.Status.LastFailover
	return p != nil && f != nil && f.Time.Equal(&p.PlacementTime) && f.FromEpoch < p.Epoch
}

// startsRun is whether a write says that the desktop of this run is ready for the
// first time.
func startsRun(before, after *v1alpha1.VDISession) bool {
	return before.Status.Placement != nil && sameRun(before, after) &&
		before.Status.RunningSince == nil && after.Status.RunningSince != nil
}

// missesRun is whether a write ends a run that never was ready.
func missesRun(before, after *v1alpha1.VDISession) bool {
	p := before.Status.Placement
	if p == nil || p.Idle || before.Status.RunningSince != nil || before.Status.Phase == v1alpha1.PhaseTerminating ||
		reasonOf(before, v1alpha1.ConditionPodReady) == v1alpha1.ReasonTimeExpired {
		return false
	}
	return !sameRun(before, after) || after.Status.Placement.Idle || after.Status.Phase == v1alpha1.PhaseTerminating
}

func sameRun(before, after *v1alpha1.VDISession) bool {
	was, is := before.Status.Placement, after.Status.Placement
	return was != nil && is != nil && was.Epoch == is.Epoch && was.Run == is.Run
}

// walkBegan is when the walk of a placed session's run began, by what is recorded:
// when the session was made, or its member was last heard of, or it was placed
// anew, or told to run again.
func walkBegan(s *v1alpha1.VDISession) time.Time {
	p := s.Status.Placement
	assigned := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned)
	switch {
	case p.Run > 1 && assigned != nil:
		return assigned.LastTransitionTime.Time
	case failedOver(s):
		return s.Status.LastFailover.LostTime.Time
	case p.Epoch == 1 && p.Run <= 1:
		return s.CreationTimestamp.Time
	}
	return p.PlacementTime.Time
}
