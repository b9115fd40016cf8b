package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// While a session is being created, statuses that show no problem are held back: most
	// sessions are ready soon, and one write shows it all. settleTime counts from the
	// placement, settleInterval from the first such write.
	settleTime     = 5 * time.Second
	settleInterval = 10 * time.Second
)

// Mirror copies what a member reports of the current epoch into a session's status.
// stored is set if the member has stored the current assignment.
func Mirror(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, reported *v1alpha1.SessionAssignment, stored bool, url string, now time.Time) {
	mirrorAssigned(s, reported, stored)
	if !outdated(s, reported) {
		mirrorConditions(s, reported)
	}
	mirrorFailure(s, reported)
	mirrorLease(s, reported, stored)
	mirrorConfig(s, reported, now)
	if reported.TimeExpired() {
		EndRun(s, now)
	}
	adoptTimeUsed(s, reported, stored)
	Summarize(s, t, now)
	if ToRun(s) && s.Status.Phase == v1alpha1.PhaseRunning && meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) {
		if s.Status.StartTime == nil {
			at := Seconds(now)
			s.Status.StartTime = &at
		}
		StartRun(s, now)
		recovered(s, now)
		Summarize(s, t, now)
	}
	if s.Status.Endpoint != nil || s.Status.Phase == v1alpha1.PhaseRunning {
		s.Status.Endpoint = &v1alpha1.SessionEndpoint{URL: url}
	}
}

// outdated reports whether a report predates the current run: it shows that the desktop
// was stopped on purpose. Once the desktop has run, such a report is current.
func outdated(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) bool {
	return ToRun(s) && s.Status.RunningSince == nil && ReportsIdle(reported)
}

// ReportsIdle reports whether a desktop is stopped because it is not to run.
func ReportsIdle(reported *v1alpha1.SessionAssignment) bool {
	pod := meta.FindStatusCondition(reported.Status.Conditions, v1alpha1.ConditionPodReady)
	return pod != nil && (pod.Reason == v1alpha1.ReasonSuspended || pod.Reason == v1alpha1.ReasonTimeExpired)
}

func mirrorConditions(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) {
	for _, name := range AgentConditions {
		if c := meta.FindStatusCondition(reported.Status.Conditions, name); c != nil {
			// The time of the change is by the hub's clock: the member's may differ by hours.
			set(s, c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// mirrorFailure shows that the agent has ended the current attempt. Failures of earlier
// attempts are ignored.
func mirrorFailure(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) {
	f := reported.Status.Failure
	if f == nil || f.Attempt < s.Status.Attempt {
		v1alpha1.RemoveCondition(&s.Status.Conditions, v1alpha1.ConditionProgressing)
		return
	}
	SetFalse(s, v1alpha1.ConditionProgressing, f.Reason, failureMessage(s, f))
}

// failureMessage returns the agent's message, and how to retry if that does not state it.
func failureMessage(s *v1alpha1.VDISession, f *v1alpha1.Failure) string {
	if strings.Contains(f.Message, "spec.attempt") {
		return f.Message
	}
	return fmt.Sprintf("%s; to retry, raise spec.attempt to %d", strings.TrimRight(f.Message, ". "), s.Status.Attempt+1)
}

// mirrorConfig records which config the desktop has, and since when.
func mirrorConfig(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, now time.Time) {
	have, had := reported.Status.Config, s.Status.Config
	switch {
	case have == nil:
		s.Status.Config = nil
	case had == nil || had.Name != have.Name || had.Hash != have.Hash:
		s.Status.Config = &v1alpha1.SessionConfig{Name: have.Name, Hash: have.Hash, ChangeTime: Seconds(now)}
	}
}

// mirrorAssigned sets the condition Assigned of a reported assignment.
func mirrorAssigned(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, stored bool) {
	cluster := s.Status.Placement.ClusterName
	switch {
	case reported.Status.State == v1alpha1.AssignmentStopping:
		message := fmt.Sprintf("the assignment was deleted in %s: once it has stopped, the session is rescheduled", cluster)
		if left := reported.Status.Message; left != "" {
			message += " (" + left + ")"
		}
		SetFalse(s, v1alpha1.ConditionAssigned, v1alpha1.ReasonPodTerminating, message)
	case stored:
		SetTrue(s, v1alpha1.ConditionAssigned, v1alpha1.ReasonStored, fmt.Sprintf("%s has stored the assignment", cluster))
	case ReportsRefusal(reported):
		SetFalse(s, v1alpha1.ConditionAssigned, v1alpha1.ReasonRefused,
			fmt.Sprintf("%s refused the change: %s: %s", cluster, reported.Status.Reason, reported.Status.Message))
	default:
		showSending(s)
	}
}

// HoldBack returns how long the write of a mirrored status may wait: while a session is
// being created, a status that neither ends anything nor shows a problem.
func HoldBack(before, after *v1alpha1.VDISession, now time.Time) time.Duration {
	if before.Status.Phase != v1alpha1.PhaseCreating || after.Status.Phase != v1alpha1.PhaseCreating || before.Status.Placement == nil ||
		leaseUrgent(before.Status.Placement, after.Status.Placement) {
		return 0
	}
	if firstProblem(after) != nil {
		return 0
	}
	until := before.Status.Placement.PlacementTime.Add(settleTime)
	switch c := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionAssigned); {
	case c != nil && c.Status == metav1.ConditionTrue:
		until = c.LastTransitionTime.Add(settleInterval)
	case c != nil && c.LastTransitionTime.After(before.Status.Placement.PlacementTime.Time):
		// The desktop runs again: its run began when the assignment was sent.
		until = c.LastTransitionTime.Add(settleTime)
	}
	wait := until.Sub(now)
	if wait > settleInterval {
		return 0 // the clock was set back
	}
	return max(0, wait)
}

// problems are the reasons that a user should see at once.
var problems = sets.New(
	v1alpha1.ReasonImagePull, v1alpha1.ReasonCrashLoop, v1alpha1.ReasonContainerError, v1alpha1.ReasonPodFailed,
	v1alpha1.ReasonUnschedulablePod, v1alpha1.ReasonNodeProvisioning, v1alpha1.ReasonScaleUpFailed, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonConflict, v1alpha1.ReasonOutOfMemory,
	v1alpha1.ReasonEvicted, v1alpha1.ReasonNodeLost, v1alpha1.ReasonQuotaExceeded,
)

// refusals are the reasons for which members refuse assignments.
var refusals = sets.New(
	v1alpha1.RefusedInvalid, v1alpha1.RefusedNamespaceNotAdmitted, v1alpha1.RefusedNoCapacity, v1alpha1.RefusedStaleEpoch, v1alpha1.RefusedNotAllowed,
)

// ReportsRefusal reports whether an active assignment carries the member's refusal of a
// change. Any other reason belongs to the agent's conditions.
func ReportsRefusal(reported *v1alpha1.SessionAssignment) bool {
	return refusals.Has(reported.Status.Reason)
}

// Ended reports whether a member reports an assignment as over: stopped, or never stored.
func Ended(reported *v1alpha1.SessionAssignment) bool {
	return reported.Status.State == v1alpha1.AssignmentStopped || reported.Status.State == v1alpha1.AssignmentRefused
}
