package sessiontest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Condition sets a condition, with a message derived from its reason.
func Condition(name string, status metav1.ConditionStatus, reason string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) {
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
			Type: name, Status: status, Reason: reason, Message: "message of " + reason,
			LastTransitionTime: metav1.Unix(1_700_000_000, 0),
		})
	}
}

// Now is the time of the tests.
var Now = time.Unix(1_700_000_100, 123_456_789)

// The statuses of a condition.
const (
	Yes     = metav1.ConditionTrue
	No      = metav1.ConditionFalse
	Unknown = metav1.ConditionUnknown
)

// Accepted makes a session accepted.
func Accepted(s *v1alpha1.VDISession) {
	Condition(v1alpha1.ConditionAccepted, Yes, v1alpha1.ReasonAccepted)(s)
}

// Scheduled makes a session accepted and placed in Here.
func Scheduled(s *v1alpha1.VDISession) {
	Accepted(s)
	Condition(v1alpha1.ConditionScheduled, Yes, v1alpha1.ReasonPlaced)(s)
	PlacedAt(Here, 5)(s)
}

// Created makes all conditions True except PodReady.
func Created(s *v1alpha1.VDISession) {
	Scheduled(s)
	Condition(v1alpha1.ConditionAssigned, Yes, v1alpha1.ReasonStored)(s)
	Condition(v1alpha1.ConditionHomeReady, Yes, v1alpha1.ReasonNoHome)(s)
	Condition(v1alpha1.ConditionEndpointReady, Yes, v1alpha1.ReasonEndpointReady)(s)
}

// Ready makes all conditions of the desktop True.
func Ready(s *v1alpha1.VDISession) {
	Created(s)
	Condition(v1alpha1.ConditionPodReady, Yes, v1alpha1.ReasonPodReady)(s)
}

// Here and Elsewhere are members.
const (
	Here      = types.UID("uid-here")
	Elsewhere = types.UID("uid-elsewhere")
)

// With returns a session of epoch 5 with the changes.
func With(changes ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	s.Namespace, s.Name, s.UID, s.Generation = "desktops", "mine", "uid-session", 1
	s.Spec.User, s.Spec.Template, s.Spec.OperatingMode = "ann", "browser", v1alpha1.ModeRunning
	s.Status.Epoch = 5
	for _, change := range changes {
		change(s)
	}
	return s
}

// PlacedAt places a session in a member, with an epoch.
func PlacedAt(member types.UID, epoch int64) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) {
		s.Status.Placement = &v1alpha1.Placement{ClusterName: "name-of-" + string(member), ClusterUID: member, Epoch: epoch}
	}
}

// ReleasingAt adds a release that the member has not confirmed.
func ReleasingAt(member types.UID, epoch int64) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) {
		s.Status.Releasing = append(s.Status.Releasing, v1alpha1.Release{ClusterName: "name-of-" + string(member), ClusterUID: member, Epoch: epoch})
	}
}

// Deleted marks a session as being deleted.
func Deleted(s *v1alpha1.VDISession) {
	at := metav1.Unix(1_700_000_000, 0)
	s.DeletionTimestamp = &at
}

// Reported returns the status report of a member for the session.
func Reported(state v1alpha1.AssignmentState, epoch int64, hash string) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
	a.Spec.Session.UID, a.Spec.Epoch = "uid-session", epoch
	a.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: hash}
	a.Status.State = state
	return a
}

// StoppedReport returns the report of a desktop that was stopped after 2 minutes.
func StoppedReport() *v1alpha1.SessionAssignment {
	a := Reported(v1alpha1.AssignmentActive, 1, "hash")
	a.Status.ObservedGeneration, a.Status.TimeUsed = 1, "2m"
	a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodReady, Status: No, Reason: v1alpha1.ReasonSuspended}}
	return a
}
