package session

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// While a session is being created, a status that says nothing yet is held
// back: most sessions are ready soon, and one write says it all. settling is
// for how long after the placement, and settlingMore after the first such write.
const (
	settling     = 5 * time.Second
	settlingMore = 10 * time.Second
)

// mirror writes what a member reports of the current epoch on a session.
// stored is whether the member holds the very assignment that is wanted.
func mirror(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, reported *v1alpha1.SessionAssignment, stored bool, url string, now time.Time) {
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, assigned(s, reported, stored))
	for _, name := range []string{v1alpha1.ConditionHomeReady, v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady} {
		c := meta.FindStatusCondition(reported.Status.Conditions, name)
		if c == nil {
			continue
		}
		// When it changed is reckoned by the hub's clock: the member's may
		// differ by hours.
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message,
		})
	}
	summarise(s, t, now)
	if s.Status.Phase == v1alpha1.PhaseRunning && s.Status.StartTime == nil {
		at := seconds(now)
		s.Status.StartTime = &at
		summarise(s, t, now)
	}
	if s.Status.URL != "" || s.Status.Phase == v1alpha1.PhaseRunning {
		s.Status.URL = url
	}
}

func assigned(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, stored bool) metav1.Condition {
	cluster := s.Status.Placement.ClusterName
	switch {
	case reported.Status.State == v1alpha1.AssignmentStopping:
		return metav1.Condition{
			Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPodTerminating,
			Message: fmt.Sprintf("the assignment was deleted in %s: once it has stopped, the session is placed anew", cluster),
		}
	case stored:
		return metav1.Condition{
			Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonStored,
			Message: fmt.Sprintf("%s has stored the assignment", cluster),
		}
	case reported.Status.Reason != "":
		return metav1.Condition{
			Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRefused,
			Message: fmt.Sprintf("%s would not store the change: %s: %s", cluster, reported.Status.Reason, reported.Status.Message),
		}
	default:
		return metav1.Condition{
			Type: v1alpha1.ConditionAssigned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSending,
			Message: fmt.Sprintf("sent to %s: waiting until its API server has stored it", cluster),
		}
	}
}

// holdBack is how long the write of a mirrored status may wait: while a
// session settles, a status that neither ends nor fails anything.
func holdBack(before, after *v1alpha1.VDISession, now time.Time) time.Duration {
	if before.Status.Phase != v1alpha1.PhaseCreating || after.Status.Phase != v1alpha1.PhaseCreating || before.Status.Placement == nil {
		return 0
	}
	if pod := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionPodReady); pod != nil && telling(pod.Reason) {
		return 0
	}
	until := before.Status.Placement.PlacementTime.Add(settling)
	if c := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionAssigned); c != nil && c.Status == metav1.ConditionTrue {
		until = c.LastTransitionTime.Add(settlingMore)
	}
	return max(0, until.Sub(now))
}

// telling are the reasons that a user should see at once.
func telling(reason string) bool {
	switch reason {
	case v1alpha1.ReasonImagePull, v1alpha1.ReasonCrashLoop, v1alpha1.ReasonContainerError, v1alpha1.ReasonPodFailed,
		v1alpha1.ReasonUnschedulablePod, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonConflict:
		return true
	}
	return false
}
