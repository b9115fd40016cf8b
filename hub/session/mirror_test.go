package session

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var testNow = time.Unix(1_700_000_100, 123_456_789)

const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown

func accepted(s *v1alpha1.VDISession) {
	conditionOf(v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted)(s)
}

func scheduled(s *v1alpha1.VDISession) {
	accepted(s)
	conditionOf(v1alpha1.ConditionScheduled, yes, v1alpha1.ReasonPlaced)(s)
	placedAt(here, 5)(s)
}

func created(s *v1alpha1.VDISession) {
	scheduled(s)
	conditionOf(v1alpha1.ConditionAssigned, yes, v1alpha1.ReasonStored)(s)
	conditionOf(v1alpha1.ConditionHomeReady, yes, v1alpha1.ReasonNoHome)(s)
	conditionOf(v1alpha1.ConditionEndpointReady, yes, v1alpha1.ReasonEndpointReady)(s)
}

func ready(s *v1alpha1.VDISession) {
	created(s)
	conditionOf(v1alpha1.ConditionPodReady, yes, v1alpha1.ReasonPodReady)(s)
}

func TestSummarise(t *testing.T) {
	type summary struct {
		Ready, Reason  string
		Phase, Message string
	}
	started := func(s *v1alpha1.VDISession) {
		at := metav1.NewTime(testNow.Add(-time.Hour))
		s.Status.StartTime, s.Status.RunningSince = &at, &at
	}
	failed := conditionOf(v1alpha1.ConditionProgressing, no, v1alpha1.ReasonImagePull)
	attempt := func(n int64) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.Attempt = n }
	}
	timeout := func(d v1alpha1.Duration) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.Timeout = d }
	}
	suspended := func(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeSuspended }
	for _, c := range []struct {
		name    string
		session *v1alpha1.VDISession
		want    summary
	}{
		{"new", sessionWith(), summary{"False", "Starting", "Pending", "waiting for Accepted"}},
		{"not accepted", sessionWith(conditionOf(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonTemplateNotFound)),
			summary{"False", "TemplateNotFound", "Failed", "message of TemplateNotFound"}},
		{"no room", sessionWith(accepted, conditionOf(v1alpha1.ConditionScheduled, no, v1alpha1.ReasonUnschedulable)),
			summary{"False", "Unschedulable", "Pending", "message of Unschedulable"}},
		{"placed", sessionWith(scheduled), summary{"False", "Starting", "Creating", "waiting for Assigned"}},
		{"starting", sessionWith(created, conditionOf(v1alpha1.ConditionPodReady, no, v1alpha1.ReasonImagePull)),
			summary{"False", "ImagePullFailed", "Creating", "message of ImagePullFailed"}},
		{"what is wrong counts for more than what comes first",
			sessionWith(created, conditionOf(v1alpha1.ConditionPodReady, no, v1alpha1.ReasonPodPending), conditionOf(v1alpha1.ConditionEndpointReady, no, v1alpha1.ReasonApplyFailed)),
			summary{"False", "ApplyFailed", "Creating", "message of ApplyFailed"}},
		{"no node fits a Pod whose claim is not bound",
			sessionWith(created, conditionOf(v1alpha1.ConditionHomeReady, no, v1alpha1.ReasonBinding), conditionOf(v1alpha1.ConditionPodReady, no, v1alpha1.ReasonUnschedulablePod)),
			summary{"False", "PodUnschedulable", "Creating", "message of Binding message of PodUnschedulable"}},
		{"ready", sessionWith(ready), summary{"True", "Ready", "Running", ""}},
		{"its member is away", sessionWith(ready, conditionOf(v1alpha1.ConditionPodReady, unknown, v1alpha1.ReasonMemberUnreachable)),
			summary{"Unknown", "MemberUnreachable", "Running", "message of MemberUnreachable"}},
		{"what is missing counts for more than what is not known",
			sessionWith(created, conditionOf(v1alpha1.ConditionHomeReady, unknown, v1alpha1.ReasonMemberUnreachable), conditionOf(v1alpha1.ConditionPodReady, no, v1alpha1.ReasonCrashLoop)),
			summary{"False", "CrashLoop", "Creating", "message of CrashLoop"}},
		{"suspended", sessionWith(created, suspended, conditionOf(v1alpha1.ConditionPodReady, no, v1alpha1.ReasonSuspended)),
			summary{"False", "Suspended", "Pending", "suspended: set spec.operatingMode to Running to go on"}},
		{"suspended, and its desktop still runs", sessionWith(ready, suspended),
			summary{"False", "Suspended", "Pending", "suspended: set spec.operatingMode to Running to go on"}},
		{"given up", sessionWith(created, failed, conditionOf(v1alpha1.ConditionPodReady, no, v1alpha1.ReasonSuspended)),
			summary{"False", "ImagePullFailed", "Failed", "message of ImagePullFailed"}},
		{"given up, and its time is over too", sessionWith(created, failed, started, timeout("30m")),
			summary{"False", "ImagePullFailed", "Failed", "message of ImagePullFailed"}},
		{"given up, and its retry is refused", sessionWith(created, failed, attempt(1), conditionOf(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonTemplateNotFound)),
			summary{"False", "TemplateNotFound", "Failed", "it is not tried again: message of TemplateNotFound"}},
		{"given up, suspended", sessionWith(created, failed, suspended),
			summary{"False", "ImagePullFailed", "Pending", "message of ImagePullFailed"}},
		{"no room to resume", sessionWith(created, conditionOf(v1alpha1.ConditionScheduled, no, v1alpha1.ReasonNoRoomToResume)),
			summary{"False", "NoRoomToResume", "Pending", "message of NoRoomToResume"}},
		{"its time is over soon", sessionWith(ready, started, timeout("61m")), summary{"True", "ExpiringSoon", "Running", ""}},
		{"nobody uses it", sessionWith(created, conditionOf(v1alpha1.ConditionPodReady, yes, v1alpha1.ReasonIdleSoon)),
			summary{"True", "ExpiringSoon", "Running", ""}},
		{"its time is over soon, and its member is away", sessionWith(ready, started, timeout("61m"), conditionOf(v1alpha1.ConditionPodReady, unknown, v1alpha1.ReasonMemberUnreachable)),
			summary{"Unknown", "MemberUnreachable", "Running", "message of MemberUnreachable"}},
		{"its time is over by the hub's clock alone", sessionWith(ready, started, timeout("30m")), summary{"True", "Ready", "Running", ""}},
		{"its time is over", sessionWith(created, timeout("30m"), func(s *v1alpha1.VDISession) { s.Status.TimeUsed = "30m" }),
			summary{"False", "TimeExpired", "Failed", "its time of 30m is over: raise spec.timeout to go on, or delete it"}},
		{"its time is not over", sessionWith(ready, started, timeout("2h")), summary{"True", "Ready", "Running", ""}},
		{"a change of it was refused", sessionWith(ready, conditionOf(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonTimeoutExceedsMaximum)),
			summary{"True", "Ready", "Running", "message of TimeoutExceedsMaximum"}},
		{"deleted", sessionWith(ready, deleted),
			summary{"False", "Terminating", "Terminating", "being deleted: waiting until name-of-uid-here has confirmed that nothing of it runs"}},
		{"deleted, and its member says what it waits for", sessionWith(ready, deleted, conditionOf(v1alpha1.ConditionAssigned, no, v1alpha1.ReasonPodTerminating)),
			summary{"False", "Terminating", "Terminating", "being deleted: message of PodTerminating"}},
		{"deleted in two members", sessionWith(ready, deleted, releasingAt(elsewhere, 3)),
			summary{"False", "Terminating", "Terminating", "being deleted: waiting until name-of-uid-elsewhere and name-of-uid-here have confirmed that nothing of it runs"}},
		{"deleted, and its time is over too", sessionWith(ready, deleted, started, timeout("30m")),
			summary{"False", "Terminating", "Terminating", "being deleted: waiting until name-of-uid-here has confirmed that nothing of it runs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			summarise(c.session, &v1alpha1.TemplateSpec{}, testNow)
			r := meta.FindStatusCondition(c.session.Status.Conditions, v1alpha1.ConditionReady)
			got := summary{string(r.Status), r.Reason, string(c.session.Status.Phase), c.session.Status.Message}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			again := c.session.DeepCopy()
			summarise(again, &v1alpha1.TemplateSpec{}, testNow)
			if !equality.Semantic.DeepEqual(c.session.Status, again.Status) {
				t.Error("summing up again changes the status")
			}
		})
	}
}

func TestMirror(t *testing.T) {
	memberTime := metav1.Unix(1, 0)
	report := reports(v1alpha1.AssignmentActive, 5, "hash")
	for _, name := range []string{v1alpha1.ConditionHomeReady, v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady} {
		report.Status.Conditions = append(report.Status.Conditions, metav1.Condition{
			Type: name, Status: yes, Reason: "Fine", LastTransitionTime: memberTime, ObservedGeneration: 77,
		})
	}
	report.Status.Conditions = append(report.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: no, Reason: "NotTheAgents"})
	s := sessionWith(scheduled)
	mirror(s, &v1alpha1.TemplateSpec{}, report, true, "https://url", testNow)
	if s.Status.Phase != v1alpha1.PhaseRunning || s.Status.URL != "https://url" {
		t.Errorf("got phase %s, url %q", s.Status.Phase, s.Status.URL)
	}
	if want := metav1.NewTime(testNow.Truncate(time.Second)); s.Status.StartTime == nil || !s.Status.StartTime.Equal(&want) {
		t.Errorf("got start %v, want %v: to the second, as it is stored", s.Status.StartTime, want)
	}
	for _, c := range s.Status.Conditions {
		if c.LastTransitionTime.Equal(&memberTime) || c.ObservedGeneration == 77 {
			t.Errorf("%s has the member's time or generation: %+v", c.Type, c)
		}
	}
	started := *s.Status.StartTime
	mirror(s, &v1alpha1.TemplateSpec{}, report, true, "https://moved", testNow.Add(time.Hour))
	if !s.Status.StartTime.Equal(&started) || s.Status.URL != "https://moved" {
		t.Errorf("got start %v, url %q an hour later", s.Status.StartTime, s.Status.URL)
	}
}

func TestAssigned(t *testing.T) {
	type condition struct{ Status, Reason, Message string }
	refused := reports(v1alpha1.AssignmentActive, 5, "old")
	refused.Status.Reason, refused.Status.Message = v1alpha1.RefusedInvalid, "too long"
	for _, c := range []struct {
		name     string
		reported *v1alpha1.SessionAssignment
		stored   bool
		want     condition
	}{
		{"stored", reports(v1alpha1.AssignmentActive, 5, "hash"), true, condition{"True", "Stored", "name-of-uid-here has stored the assignment"}},
		{"an older one is stored", reports(v1alpha1.AssignmentActive, 5, "old"), false,
			condition{"False", "Sending", "sent to name-of-uid-here: waiting until its API server has stored it"}},
		{"the change was refused", refused, false, condition{"False", "Refused", "name-of-uid-here would not store the change: Invalid: too long"}},
		{"deleted in the member", reports(v1alpha1.AssignmentStopping, 5, "hash"), true,
			condition{"False", "PodTerminating", "the assignment was deleted in name-of-uid-here: once it has stopped, the session is placed anew"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := assigned(sessionWith(scheduled), c.reported, c.stored)
			if diff := cmp.Diff(c.want, condition{string(got.Status), got.Reason, got.Message}); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHoldBack(t *testing.T) {
	at := func(s *v1alpha1.VDISession) *v1alpha1.VDISession {
		s.Status.Phase = v1alpha1.PhaseOf(s.Status.Conditions, false, s.Spec.OperatingMode)
		s.Status.Placement.PlacementTime = metav1.NewTime(testNow)
		for i := range s.Status.Conditions {
			s.Status.Conditions[i].LastTransitionTime = metav1.NewTime(testNow)
		}
		return s
	}
	pod := func(reason string) func(*v1alpha1.VDISession) {
		return conditionOf(v1alpha1.ConditionPodReady, no, reason)
	}
	running := at(sessionWith(ready))
	running.Status.Phase = v1alpha1.PhaseRunning
	for _, c := range []struct {
		name          string
		before, after *v1alpha1.VDISession
		later         time.Duration
		want          time.Duration
	}{
		{"just placed", at(sessionWith(scheduled)), at(sessionWith(created, pod(v1alpha1.ReasonPodPending))), 0, settling},
		{"placed a while ago", at(sessionWith(scheduled)), at(sessionWith(created, pod(v1alpha1.ReasonPodPending))), settling, 0},
		{"told once", at(sessionWith(created)), at(sessionWith(created, pod(v1alpha1.ReasonStarting))), settling, settlingMore - settling},
		{"told a while ago", at(sessionWith(created)), at(sessionWith(created, pod(v1alpha1.ReasonStarting))), settlingMore, 0},
		{"bad news", at(sessionWith(scheduled)), at(sessionWith(created, pod(v1alpha1.ReasonImagePull))), 0, 0},
		{"bad news of the endpoint", at(sessionWith(scheduled)), at(sessionWith(created, pod(v1alpha1.ReasonPodPending), conditionOf(v1alpha1.ConditionEndpointReady, no, v1alpha1.ReasonQuotaExceeded))), 0, 0},
		{"it runs", at(sessionWith(created)), running, 0, 0},
		{"it ran", running, at(sessionWith(created, pod(v1alpha1.ReasonStarting))), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := holdBack(c.before, c.after, testNow.Add(c.later)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestStrikeOff(t *testing.T) {
	s := sessionWith(placedAt(here, 5), releasingAt(here, 3), releasingAt(elsewhere, 4))
	s.Status.URL = "https://url"
	strikeOff(s, here, 4)
	want := sessionWith(placedAt(here, 5), releasingAt(elsewhere, 4))
	want.Status.URL = "https://url"
	if diff := cmp.Diff(want.Status, s.Status); diff != "" {
		t.Errorf("an older stop (-want +got):\n%s", diff)
	}
	strikeOff(s, here, 5)
	if diff := cmp.Diff(sessionWith(releasingAt(elsewhere, 4)).Status, s.Status); diff != "" {
		t.Errorf("the placement's stop (-want +got):\n%s", diff)
	}
	strikeOff(s, elsewhere, 9)
	if len(outstanding(s)) != 0 {
		t.Errorf("still outstanding: %v", outstanding(s))
	}
}
