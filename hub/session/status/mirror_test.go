package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// A status that was to be held back for seconds is not held back for the hour by
// which the clock was set back.
func TestHoldBackAfterTheClockIsSetBack(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 1))
	s.Status.Phase, s.Status.Placement.PlacementTime = v1alpha1.PhaseCreating, metav1.NewTime(sessiontest.Now)
	NewWithT(t).Expect(HoldBack(s, s, sessiontest.Now)).To(Equal(settleTime))
	NewWithT(t).Expect(HoldBack(s, s, sessiontest.Now.Add(-time.Hour))).To(BeZero())
}

func TestMirror(t *testing.T) {
	memberTime := metav1.Unix(1, 0)
	report := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash")
	for _, name := range []string{v1alpha1.ConditionHomeReady, v1alpha1.ConditionPodReady, v1alpha1.ConditionEndpointReady} {
		report.Status.Conditions = append(report.Status.Conditions, metav1.Condition{
			Type: name, Status: sessiontest.Yes, Reason: "Fine", LastTransitionTime: memberTime, ObservedGeneration: 77,
		})
	}
	report.Status.Conditions = append(report.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: sessiontest.No, Reason: "NotTheAgents"})
	s := sessiontest.With(sessiontest.Scheduled)
	Mirror(s, &v1alpha1.TemplateSpec{}, report, true, "https://url", sessiontest.Now)
	if s.Status.Phase != v1alpha1.PhaseRunning || s.Status.Endpoint.URL != "https://url" {
		t.Errorf("got phase %s, endpoint %v", s.Status.Phase, s.Status.Endpoint)
	}
	if want := metav1.NewTime(sessiontest.Now.Truncate(time.Second)); s.Status.StartTime == nil || !s.Status.StartTime.Equal(&want) {
		t.Errorf("got start %v, want %v: to the second, as it is stored", s.Status.StartTime, want)
	}
	for _, c := range s.Status.Conditions {
		if c.LastTransitionTime.Equal(&memberTime) || c.ObservedGeneration == 77 {
			t.Errorf("%s has the member's time or generation: %+v", c.Type, c)
		}
	}
	started := *s.Status.StartTime
	Mirror(s, &v1alpha1.TemplateSpec{}, report, true, "https://moved", sessiontest.Now.Add(time.Hour))
	if !s.Status.StartTime.Equal(&started) || s.Status.Endpoint.URL != "https://moved" {
		t.Errorf("got start %v, endpoint %v an hour later", s.Status.StartTime, s.Status.Endpoint)
	}
}

func TestAssignedCondition(t *testing.T) {
	type condition struct{ Status, Reason, Message string }
	refused := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "old")
	refused.Status.Reason, refused.Status.Message = v1alpha1.RefusedInvalid, "too long"
	for _, c := range []struct {
		name     string
		reported *v1alpha1.SessionAssignment
		stored   bool
		want     condition
	}{
		{"stored", sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash"), true, condition{"True", "Stored", "name-of-uid-here has stored the assignment"}},
		{"an older one is stored", sessiontest.Reported(v1alpha1.AssignmentActive, 5, "old"), false,
			condition{"False", "Sending", "sent to name-of-uid-here: waiting until its API server has stored it"}},
		{"the change was refused", refused, false, condition{"False", "Refused", "name-of-uid-here refused the change: Invalid: too long"}},
		{"deleted in the member", sessiontest.Reported(v1alpha1.AssignmentStopping, 5, "hash"), true,
			condition{"False", "PodTerminating", "the assignment was deleted in name-of-uid-here: once it has stopped, the session is rescheduled"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessiontest.With(sessiontest.Scheduled)
			mirrorAssigned(s, c.reported, c.stored)
			got := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned)
			if diff := cmp.Diff(c.want, condition{string(got.Status), got.Reason, got.Message}); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHoldBack(t *testing.T) {
	at := func(s *v1alpha1.VDISession) *v1alpha1.VDISession {
		s.Status.Phase = v1alpha1.PhaseOf(s.Status.Conditions, false, s.Spec.OperatingMode)
		s.Status.Placement.PlacementTime = metav1.NewTime(sessiontest.Now)
		for i := range s.Status.Conditions {
			s.Status.Conditions[i].LastTransitionTime = metav1.NewTime(sessiontest.Now)
		}
		return s
	}
	pod := func(reason string) func(*v1alpha1.VDISession) {
		return sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, reason)
	}
	running := at(sessiontest.With(sessiontest.Ready))
	running.Status.Phase = v1alpha1.PhaseRunning
	for _, c := range []struct {
		name          string
		before, after *v1alpha1.VDISession
		later         time.Duration
		want          time.Duration
	}{
		{"just placed", at(sessiontest.With(sessiontest.Scheduled)), at(sessiontest.With(sessiontest.Created, pod(v1alpha1.ReasonPodPending))), 0, settleTime},
		{"placed a while ago", at(sessiontest.With(sessiontest.Scheduled)), at(sessiontest.With(sessiontest.Created, pod(v1alpha1.ReasonPodPending))), settleTime, 0},
		{"reported once", at(sessiontest.With(sessiontest.Created)), at(sessiontest.With(sessiontest.Created, pod(v1alpha1.ReasonStarting))), settleTime, settleInterval - settleTime},
		{"reported a while ago", at(sessiontest.With(sessiontest.Created)), at(sessiontest.With(sessiontest.Created, pod(v1alpha1.ReasonStarting))), settleInterval, 0},
		{"a failure", at(sessiontest.With(sessiontest.Scheduled)), at(sessiontest.With(sessiontest.Created, pod(v1alpha1.ReasonImagePull))), 0, 0},
		{"a failure of the endpoint", at(sessiontest.With(sessiontest.Scheduled)), at(sessiontest.With(sessiontest.Created, pod(v1alpha1.ReasonPodPending), sessiontest.Condition(v1alpha1.ConditionEndpointReady, sessiontest.No, v1alpha1.ReasonQuotaExceeded))), 0, 0},
		{"it runs", at(sessiontest.With(sessiontest.Created)), running, 0, 0},
		{"it ran", running, at(sessiontest.With(sessiontest.Created, pod(v1alpha1.ReasonStarting))), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := HoldBack(c.before, c.after, sessiontest.Now.Add(c.later)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A report from before the retry or the resume is ignored.
func TestReportOfAnEarlierRun(t *testing.T) {
	idle := func(reason string) *v1alpha1.SessionAssignment {
		a := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash")
		a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodReady, Status: sessiontest.No, Reason: reason, Message: "reported"}}
		return a
	}
	failure := func(attempt int64) *v1alpha1.SessionAssignment {
		a := idle(v1alpha1.ReasonImagePull)
		a.Status.Failure = &v1alpha1.Failure{Attempt: attempt, Reason: v1alpha1.ReasonImagePull, Message: "Mend the image."}
		return a
	}
	stopped := func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }
	runs := func(s *v1alpha1.VDISession) { StartRun(s, sessiontest.Now.Add(-time.Hour)) }
	tries := func(s *v1alpha1.VDISession) { s.Status.Attempt = 2 }
	for _, c := range []struct {
		name     string
		session  *v1alpha1.VDISession
		reported *v1alpha1.SessionAssignment
		pod      string
		failed   string
		used     v1alpha1.Duration
	}{
		{"it is suspended", sessiontest.With(sessiontest.Scheduled, stopped), idle(v1alpha1.ReasonSuspended), "Suspended", "", ""},
		{"it was suspended", sessiontest.With(sessiontest.Scheduled), idle(v1alpha1.ReasonSuspended), "", "", ""},
		{"its time was over", sessiontest.With(sessiontest.Scheduled), idle(v1alpha1.ReasonTimeExpired), "", "", ""},
		{"its time is over, by the member's clock", sessiontest.With(sessiontest.Ready, runs), idle(v1alpha1.ReasonTimeExpired), "TimeExpired", "", "1h0m0.124s"},
		{"it fails", sessiontest.With(sessiontest.Scheduled, tries), failure(2), "ImagePullFailed", "Mend the image; to retry, raise spec.attempt to 3", ""},
		{"it failed before", sessiontest.With(sessiontest.Scheduled, tries), failure(1), "ImagePullFailed", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			Mirror(c.session, &v1alpha1.TemplateSpec{}, c.reported, true, "https://url", sessiontest.Now)
			pod := ""
			if p := meta.FindStatusCondition(c.session.Status.Conditions, v1alpha1.ConditionPodReady); p != nil {
				pod = p.Reason
			}
			g.Expect(pod).To(Equal(c.pod))
			message := ""
			if f := FailedPermanently(c.session); f != nil {
				message = f.Message
			}
			g.Expect(message).To(Equal(c.failed))
			g.Expect(c.session.Status.TimeUsed).To(Equal(c.used))
			g.Expect(c.session.Status.Placement.Idle).To(Equal(c.name == "it is suspended"), "the Reconciler sets it")
		})
	}
}

func TestConfigThatTheMemberHas(t *testing.T) {
	g := NewWithT(t)
	s, report := sessiontest.With(sessiontest.Scheduled), sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash")
	shown := func(at time.Time) *v1alpha1.SessionConfig {
		mirrorConfig(s, report, at)
		return s.Status.Config
	}
	first, later := Seconds(sessiontest.Now), Seconds(sessiontest.Now.Add(time.Hour))
	g.Expect(shown(sessiontest.Now)).To(BeNil())
	report.Status.Config = &v1alpha1.AssignedConfig{Name: "mine", Hash: "h1"}
	g.Expect(shown(sessiontest.Now)).To(Equal(&v1alpha1.SessionConfig{Name: "mine", Hash: "h1", ChangeTime: first}))
	g.Expect(shown(later.Time).ChangeTime).To(Equal(first), "it is as it was")
	report.Status.Config.Hash = "h2"
	g.Expect(shown(later.Time)).To(Equal(&v1alpha1.SessionConfig{Name: "mine", Hash: "h2", ChangeTime: later}))
	report.Status.Config = nil
	g.Expect(shown(later.Time)).To(BeNil())
}
