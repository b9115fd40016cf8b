package session

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// maxNote is the most bytes of an event's note that the API takes, less the
// mark of a cut.
const maxNote = 1000

// announce says as an event what a status write changed for the better or the
// worse.
func (r *Reconciler) announce(a *api.SessionAssignment, have, want api.SessionAssignmentStatus) {
	switch {
	case observe.Ready(want) && !observe.Ready(have) && have.StartTime == nil:
		// The first time needs no event: the hub has one on the session, and the
		// Pod its own.
		startTime.Observe(want.StartTime.Sub(a.CreationTimestamp.Time).Seconds())
	case observe.Ready(want) && !observe.Ready(have):
		r.event(a, corev1.EventTypeNormal, api.EventRunning, "The desktop runs again, on node "+want.NodeName+".")
	case want.Failure != nil && have.Failure == nil:
		failures.WithLabelValues(want.Failure.Reason).Inc()
		r.event(a, corev1.EventTypeWarning, api.EventFailed, want.Failure.Message)
	case want.Failure != nil, want.State == api.AssignmentStopping, want.Reason == have.Reason:
	case inTrouble(want):
		r.event(a, corev1.EventTypeWarning, api.EventWaiting, want.Message)
	}
}

func inTrouble(s api.SessionAssignmentStatus) bool {
	for _, c := range s.Conditions {
		if observe.IsTrouble(c) {
			return true
		}
	}
	return false
}

func (r *Reconciler) event(a *api.SessionAssignment, severity, reason, note string) {
	if len(note) > maxNote {
		note = note[:maxNote] + "..."
	}
	r.Recorder.Eventf(a, nil, severity, reason, "Reconcile", "%s", note)
}
