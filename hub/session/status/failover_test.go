package status

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestFailoverFor(t *testing.T) {
	type failover = v1alpha1.SessionFailover
	for _, c := range []struct {
		name            string
		session, policy failover
		home            v1alpha1.HomeMode
		want            failover
	}{
		{name: "without a home", want: failover{Mode: "Restart", Healing: "KeepReplacement"}},
		{name: "with a home", home: v1alpha1.HomePerUser, want: failover{Mode: "Hold", Healing: "KeepReplacement"}},
		{name: "as the session has it", session: failover{Mode: "Fence", After: "5s"}, policy: failover{Mode: "Hold", After: "9s"},
			want: failover{Mode: "Fence", After: "5s", Healing: "KeepReplacement"}},
		{name: "as the policy has it", policy: failover{Mode: "Restart", After: "9s", Healing: "KeepOriginal"},
			want: failover{Mode: "Restart", After: "9s", Healing: "KeepOriginal"}},
		{name: "but where that would lose what is in a home", home: v1alpha1.HomePerSession, policy: failover{Mode: "Restart"},
			want: failover{Mode: "Hold", Healing: "KeepReplacement"}},
		{name: "nor by the session, whatever it requests", home: v1alpha1.HomePerUser, session: failover{Mode: "Fence"},
			want: failover{Mode: "Hold", Healing: "KeepReplacement"}},
		{name: "no original is kept where no two copies run", session: failover{Mode: "Fence"}, policy: failover{Healing: "KeepOriginal"},
			want: failover{Mode: "Fence", Healing: "KeepReplacement"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, policy := sessiontest.With(), &v1alpha1.PlacementPolicy{}
			s.Spec.Failover, policy.Spec.Failover = c.session, c.policy
			template := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: c.home}}
			NewWithT(t).Expect(FailoverFor(s, template, policy)).To(Equal(c.want))
		})
	}
}

func TestFailBack(t *testing.T) {
	ref := v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here}
	session := func(changes ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
		s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Elsewhere, 6), sessiontest.Condition(v1alpha1.ConditionAssigned, sessiontest.Yes, v1alpha1.ReasonStored))
		s.Status.Epoch, s.Status.Placement.Run = 6, 1
		s.Status.Releasing = []v1alpha1.Release{{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 5, Superseded: true}}
		s.Status.LastFailover = &v1alpha1.FailoverRecord{From: "eu", FromRegion: "europe", FromEpoch: 5}
		for _, f := range changes {
			f(s)
		}
		return s
	}
	report := func(changes ...func(*v1alpha1.SessionAssignment)) *v1alpha1.SessionAssignment {
		a := &v1alpha1.SessionAssignment{}
		a.Spec.Epoch, a.Status.State = 5, v1alpha1.AssignmentActive
		a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodReady, Status: metav1.ConditionTrue}}
		for _, f := range changes {
			f(a)
		}
		return a
	}
	for _, c := range []struct {
		name     string
		session  *v1alpha1.VDISession
		reported *v1alpha1.SessionAssignment
		want     bool
	}{
		{"it runs still", session(), report(), true},
		{"nothing is reported", session(), nil, false},
		{"it is not ready", session(), report(func(a *v1alpha1.SessionAssignment) { a.Status.Conditions[0].Status = metav1.ConditionFalse }), false},
		{"it stops", session(), report(func(a *v1alpha1.SessionAssignment) { a.Status.State = v1alpha1.AssignmentStopping }), false},
		{"it is another copy", session(), report(func(a *v1alpha1.SessionAssignment) { a.Spec.Epoch = 4 }), false},
		{"the session is deleted", session(sessiontest.Deleted), report(), false},
		{"the replacement was restarted", session(func(s *v1alpha1.VDISession) { s.Status.Placement.Run = 2 }), report(), false},
		{"the replacement is suspended", session(func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }), report(), false},
		{"it is of an earlier failover", session(func(s *v1alpha1.VDISession) { s.Status.LastFailover.FromEpoch = 3 }), report(), false},
		{"it was released without a failover", session(func(s *v1alpha1.VDISession) { s.Status.Releasing[0].Superseded = false }), report(), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			NewWithT(t).Expect(MayFailBack(c.session, ref, c.reported)).To(Equal(c.want))
		})
	}
	t.Run("and the replacement is left behind instead", func(t *testing.T) {
		g, s := NewWithT(t), session()
		FailBack(s, ref, 7, Seconds(sessiontest.Now))
		g.Expect(s.Status.Placement).To(HaveField("ClusterUID", sessiontest.Here))
		g.Expect(s.Status.Placement.Epoch).To(Equal(int64(7)))
		g.Expect(s.Status.Placement.Region).To(Equal("europe"))
		g.Expect(s.Status.Releasing).To(Equal([]v1alpha1.Release{{ClusterName: "name-of-" + string(sessiontest.Elsewhere), ClusterUID: sessiontest.Elsewhere, Epoch: 6, Superseded: true}}))
		g.Expect(DesiredIn(s, sessiontest.Here)).To(Equal(Desired{Run: true, Epoch: 7}))
		g.Expect(DesiredIn(s, sessiontest.Elsewhere)).To(Equal(Desired{Stop: true, StopEpoch: 6}))
		g.Expect(MayFailBack(s, v1alpha1.ClusterRef{Name: "name-of-" + string(sessiontest.Elsewhere), UID: sessiontest.Elsewhere}, report(func(a *v1alpha1.SessionAssignment) { a.Spec.Epoch = 6 }))).
			To(BeFalse(), "once for each failover")
	})
}
