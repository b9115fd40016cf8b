package session

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Of a report from before the retry or the resume nothing is made.
func TestReportFromBefore(t *testing.T) {
	idle := func(reason string) *v1alpha1.SessionAssignment {
		a := reports(v1alpha1.AssignmentActive, 5, "hash")
		a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodReady, Status: no, Reason: reason, Message: "told"}}
		return a
	}
	failure := func(attempt int64) *v1alpha1.SessionAssignment {
		a := idle(v1alpha1.ReasonImagePull)
		a.Status.Failure = &v1alpha1.Failure{Attempt: attempt, Reason: v1alpha1.ReasonImagePull, Message: "Mend the image."}
		return a
	}
	resting := func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }
	runs := func(s *v1alpha1.VDISession) { startRun(s, testNow.Add(-time.Hour)) }
	tries := func(s *v1alpha1.VDISession) { s.Status.Attempt = 2 }
	for _, c := range []struct {
		name     string
		session  *v1alpha1.VDISession
		reported *v1alpha1.SessionAssignment
		pod      string
		failed   string
		used     v1alpha1.Duration
	}{
		{"it is suspended", sessionWith(scheduled, resting), idle(v1alpha1.ReasonSuspended), "Suspended", "", ""},
		{"it was suspended", sessionWith(scheduled), idle(v1alpha1.ReasonSuspended), "", "", ""},
		{"its time was over", sessionWith(scheduled), idle(v1alpha1.ReasonTimeExpired), "", "", ""},
		{"its time is over, by the member's clock", sessionWith(ready, runs), idle(v1alpha1.ReasonTimeExpired), "TimeExpired", "", "1h0m0.124s"},
		{"it fails", sessionWith(scheduled, tries), failure(2), "ImagePullFailed", "Mend the image; to try again raise spec.attempt to 3", ""},
		{"it failed before", sessionWith(scheduled, tries), failure(1), "ImagePullFailed", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			mirror(c.session, &v1alpha1.TemplateSpec{}, c.reported, true, "https://url", testNow)
			pod := ""
			if p := meta.FindStatusCondition(c.session.Status.Conditions, v1alpha1.ConditionPodReady); p != nil {
				pod = p.Reason
			}
			g.Expect(pod).To(Equal(c.pod))
			message := ""
			if f := givenUp(c.session); f != nil {
				message = f.Message
			}
			g.Expect(message).To(Equal(c.failed))
			g.Expect(c.session.Status.TimeUsed).To(Equal(c.used))
			g.Expect(c.session.Status.Placement.Idle).To(Equal(c.name == "it is suspended"), "that is the Reconciler's to say")
		})
	}
}

func TestConfigThatTheMemberHas(t *testing.T) {
	g := NewWithT(t)
	s, report := sessionWith(scheduled), reports(v1alpha1.AssignmentActive, 5, "hash")
	shown := func(at time.Time) *v1alpha1.SessionConfig {
		mirrorConfig(s, report, at)
		return s.Status.Config
	}
	first, later := seconds(testNow), seconds(testNow.Add(time.Hour))
	g.Expect(shown(testNow)).To(BeNil())
	report.Status.Config = &v1alpha1.AssignedConfig{Name: "mine", Hash: "h1"}
	g.Expect(shown(testNow)).To(Equal(&v1alpha1.SessionConfig{Name: "mine", Hash: "h1", ChangeTime: first}))
	g.Expect(shown(later.Time).ChangeTime).To(Equal(first), "it is as it was")
	report.Status.Config.Hash = "h2"
	g.Expect(shown(later.Time)).To(Equal(&v1alpha1.SessionConfig{Name: "mine", Hash: "h2", ChangeTime: later}))
	report.Status.Config = nil
	g.Expect(shown(later.Time)).To(BeNil())
}
