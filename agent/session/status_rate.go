package session

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// writeDelay returns how long a changed status waits, so that a burst of changes costs one
// write. An urgent status does not wait. A Pod for which a node is added waits a fifth as long: its user
// should know soon, but a Pod that takes the place of another has its node within a second.
func writeDelay(mode api.OperatingMode, have, want api.SessionAssignmentStatus, m statusMemory, o Options, now time.Time) time.Duration {
	switch {
	case urgent(mode, have, want):
		return 0
	case podReason(have) != api.ReasonNodeProvisioning && podReason(want) == api.ReasonNodeProvisioning:
		return max(m.differsSince.Add(o.StatusDelay/5).Sub(now), 0)
	}
	return max(m.differsSince.Add(o.StatusDelay).Sub(now), m.writtenAt.Add(o.StatusInterval).Sub(now), 0)
}

// podReason returns the reason of the condition PodReady, if a status has it.
func podReason(status api.SessionAssignmentStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, api.ConditionPodReady); c != nil {
		return c.Reason
	}
	return ""
}

// urgent reports whether a status must be written at once: the session became ready or not
// ready, its run ended, it failed or is retried, it has a new problem, or it has stopped. A
// required stop in progress is not urgent.
func urgent(mode api.OperatingMode, have, want api.SessionAssignmentStatus) bool {
	switch {
	case want.State == api.AssignmentStopping:
		return false
	case have.RunningSince != nil && !have.RunningSince.Equal(want.RunningSince), // or the next process counts an ended run as going on
		have.Guarded != want.Guarded, // the hub's failover depends on it
		(have.Failure == nil) != (want.Failure == nil):
		return true
	}
	if mode == api.ModeSuspended && podReason(want) == api.ReasonPodTerminating {
		return false
	}
	if observe.Ready(have) != observe.Ready(want) {
		return true
	}
	return slices.ContainsFunc(want.Conditions, func(c metav1.Condition) bool {
		old := meta.FindStatusCondition(have.Conditions, c.Type)
		return isUrgent(c) && (old == nil || old.Reason != c.Reason) || old != nil && waitsForNode(*old, c)
	})
}

// waitsForNode reports whether a node is being added for a Pod that was reported as one that fits on no node,
// for which the hub would move its session.
func waitsForNode(old, c metav1.Condition) bool {
	return old.Reason == api.ReasonUnschedulablePod && c.Reason == api.ReasonNodeProvisioning
}

// isUrgent reports whether a condition is urgent. PodUnschedulable is not: it comes and goes
// while a volume is provisioned or a cluster scales up.
func isUrgent(c metav1.Condition) bool {
	return c.Reason == api.ReasonSuspended || c.Reason == api.ReasonTimeExpired || c.Reason == api.ReasonIdleSoon ||
		observe.IsTrouble(c) && c.Reason != api.ReasonUnschedulablePod
}
