package session

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestWhatHoldsWhenAMemberIsLost(t *testing.T) {
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
		{name: "nor by the session, whatever it asks for", home: v1alpha1.HomePerUser, session: failover{Mode: "Fence"},
			want: failover{Mode: "Hold", Healing: "KeepReplacement"}},
		{name: "no original is kept where no two copies run", session: failover{Mode: "Fence"}, policy: failover{Healing: "KeepOriginal"},
			want: failover{Mode: "Fence", Healing: "KeepReplacement"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, policy := sessionWith(), &v1alpha1.PlacementPolicy{}
			s.Spec.Failover, policy.Spec.Failover = c.session, c.policy
			template := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: c.home}}
			NewWithT(t).Expect(failoverOf(s, template, policy)).To(Equal(c.want))
		})
	}
}

func TestModeThatWouldLoseAHomeIsNotAccepted(t *testing.T) {
	home := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}}
	for mode, refused := range map[v1alpha1.FailoverMode]bool{"": false, "Hold": false, "Restart": true, "Fence": true} {
		s := sessionWith()
		s.Spec.Failover.Mode = mode
		c := acceptance(s, home, false, nil)
		g := NewWithT(t)
		g.Expect(c.Status == metav1.ConditionFalse).To(Equal(refused), "mode %q", mode)
		if refused {
			g.Expect(c.Reason).To(Equal(v1alpha1.ReasonFailoverLosesHome))
			g.Expect(c.Message).To(And(ContainSubstring(string(mode)), ContainSubstring("set it to Hold")))
		}
		g.Expect(acceptance(s, &v1alpha1.TemplateSpec{}, false, nil).Status).To(Equal(metav1.ConditionTrue), "mode %q without a home", mode)
	}
}

func TestModeFollowsTheSession(t *testing.T) {
	h := newHubInMemory(t)
	h.Expect(h.pass().Status.Placement.FailoverMode).To(Equal(v1alpha1.FailoverRestart))
	h.edit(func(s *v1alpha1.VDISession) {
		s.Spec.Failover.Mode, s.Status.Placement.Guarded = v1alpha1.FailoverFence, true
	})
	at := h.pass().Status.Placement
	h.Expect(at.FailoverMode).To(Equal(v1alpha1.FailoverFence))
	h.Expect(at.Guarded).To(BeFalse(), "that was told of another mode")
	h.Expect(Assignment(h.stored(), &v1alpha1.TemplateSpec{}, "example.com", Secrets{}).Spec.FailoverMode).To(Equal(v1alpha1.FailoverFence))
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Failover.Mode = ""; s.Generation++ })
	h.Expect(h.pass().Status.Placement.FailoverMode).To(Equal(v1alpha1.FailoverRestart))
}

func TestLeaseOfAMember(t *testing.T) {
	fence := func(change func(*v1alpha1.Placement)) *v1alpha1.Placement {
		p := &v1alpha1.Placement{ClusterUID: here, ClusterName: "eu", Epoch: 5, FailoverMode: v1alpha1.FailoverFence}
		change(p)
		return p
	}
	report := func(epoch, lapse int64, guarded bool) *v1alpha1.SessionAssignment {
		a := &v1alpha1.SessionAssignment{}
		a.Spec.Epoch, a.Status.Lapse, a.Status.Guarded = epoch, lapse, guarded
		return a
	}
	for _, c := range []struct {
		name     string
		at       func(*v1alpha1.Placement)
		reported *v1alpha1.SessionAssignment
		stored   bool
		lapse    int64
		guarded  bool
		urgent   bool
	}{
		{"a lapse is affirmed", func(*v1alpha1.Placement) {}, report(5, 2, false), true, 2, false, true},
		{"once", func(p *v1alpha1.Placement) { p.Lapse = 2 }, report(5, 2, false), true, 2, false, false},
		{"not of an earlier epoch", func(*v1alpha1.Placement) {}, report(4, 2, true), true, 0, false, false},
		{"a guard is noted", func(*v1alpha1.Placement) {}, report(5, 0, true), true, 0, true, false},
		{"not before the member has stored the mode", func(*v1alpha1.Placement) {}, report(5, 0, true), false, 0, false, false},
		{"but it is not forgotten with each change", func(p *v1alpha1.Placement) { p.Guarded = true }, report(5, 0, true), false, 0, true, false},
		{"a guard is gone", func(p *v1alpha1.Placement) { p.Guarded = true }, report(5, 0, false), false, 0, false, true},
		{"a held desktop is affirmed as well, and has no guard", func(p *v1alpha1.Placement) { p.FailoverMode = v1alpha1.FailoverHold }, report(5, 2, true), true, 2, false, true},
		{"not of an epoch that an operator's word has ended", func(p *v1alpha1.Placement) { p.FailoverMode = v1alpha1.FailoverHold }, report(4, 2, false), true, 0, false, false},
		{"a guard is of Fence alone", func(p *v1alpha1.Placement) { p.FailoverMode = v1alpha1.FailoverRestart }, report(5, 0, true), true, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			s := sessionWith()
			s.Status.Placement = fence(c.at)
			before := *s.Status.Placement
			mirrorLease(s, c.reported, c.stored)
			g.Expect(s.Status.Placement.Lapse).To(Equal(c.lapse))
			g.Expect(s.Status.Placement.Guarded).To(Equal(c.guarded))
			g.Expect(urgent(&before, s.Status.Placement)).To(Equal(c.urgent))
			g.Expect(Assignment(s, &v1alpha1.TemplateSpec{}, "example.com", Secrets{}).Spec.Lapse).To(Equal(c.lapse))
		})
	}
}

func TestFenceSessionSaysThatNoGuardRuns(t *testing.T) {
	g := NewWithT(t)
	s := sessionWith(placedAt(here, 5), conditionOf(v1alpha1.ConditionPodReady, yes, v1alpha1.ReasonPodReady))
	says := func() string {
		showGuard(s)
		for _, c := range s.Status.Conditions {
			if c.Type == v1alpha1.ConditionFailoverReady {
				return string(c.Status) + "/" + c.Reason
			}
		}
		return ""
	}
	g.Expect(says()).To(BeEmpty())
	s.Status.Placement.FailoverMode = v1alpha1.FailoverFence
	g.Expect(says()).To(Equal("False/Unguarded"))
	s.Status.Placement.Guarded = true
	g.Expect(says()).To(BeEmpty())
	s.Status.Placement.Guarded, s.Status.Placement.Idle = false, true
	g.Expect(says()).To(BeEmpty(), "nothing runs that could run twice")
}

func TestIdleSinceIsOfTheHubsClock(t *testing.T) {
	g := NewWithT(t)
	s, reported, now := sessionWith(placedAt(here, 5)), &v1alpha1.SessionAssignment{}, testNow.Truncate(time.Second)
	far := metav1.NewTime(now.Add(9 * time.Hour)) // the member's clock
	reported.Status.IdleSince = &far
	mirrorIdle(s, reported, now, 5*time.Minute)
	g.Expect(s.Status.IdleSince.Time).To(BeTemporally("==", now.Add(-5*time.Minute)))
	mirrorIdle(s, reported, now.Add(time.Minute), 5*time.Minute)
	g.Expect(s.Status.IdleSince.Time).To(BeTemporally("==", now.Add(-5*time.Minute)))
	reported.Status.IdleSince = nil
	mirrorIdle(s, reported, now.Add(2*time.Minute), 5*time.Minute)
	g.Expect(s.Status.IdleSince).To(BeNil())
}

func TestGoingBackToWhatWasLeftBehind(t *testing.T) {
	ref := v1alpha1.ClusterRef{Name: "eu", UID: here}
	session := func(changes ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
		s := sessionWith(placedAt(elsewhere, 6), conditionOf(v1alpha1.ConditionAssigned, yes, v1alpha1.ReasonStored))
		s.Status.Epoch, s.Status.Placement.Run = 6, 1
		s.Status.Releasing = []v1alpha1.Release{{ClusterName: "eu", ClusterUID: here, Epoch: 5, Superseded: true}}
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
		{"the session is deleted", session(deleted), report(), false},
		{"the replacement was started anew", session(func(s *v1alpha1.VDISession) { s.Status.Placement.Run = 2 }), report(), false},
		{"the replacement is suspended", session(func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }), report(), false},
		{"it is of an earlier failover", session(func(s *v1alpha1.VDISession) { s.Status.LastFailover.FromEpoch = 3 }), report(), false},
		{"it was given up in good order", session(func(s *v1alpha1.VDISession) { s.Status.Releasing[0].Superseded = false }), report(), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			NewWithT(t).Expect(mayGoBack(c.session, ref, c.reported)).To(Equal(c.want))
		})
	}
	t.Run("and the replacement is left behind in its turn", func(t *testing.T) {
		g, s := NewWithT(t), session()
		returnTo(s, ref, 7, seconds(testNow))
		g.Expect(s.Status.Placement).To(HaveField("ClusterUID", here))
		g.Expect(s.Status.Placement.Epoch).To(Equal(int64(7)))
		g.Expect(s.Status.Placement.Region).To(Equal("europe"))
		g.Expect(s.Status.Releasing).To(Equal([]v1alpha1.Release{{ClusterName: "name-of-" + string(elsewhere), ClusterUID: elsewhere, Epoch: 6, Superseded: true}}))
		g.Expect(wantOf(s, here)).To(Equal(want{run: true, epoch: 7}))
		g.Expect(wantOf(s, elsewhere)).To(Equal(want{stop: true, stopEpoch: 6}))
		g.Expect(mayGoBack(s, v1alpha1.ClusterRef{Name: "name-of-" + string(elsewhere), UID: elsewhere}, report(func(a *v1alpha1.SessionAssignment) { a.Spec.Epoch = 6 }))).
			To(BeFalse(), "once for each failover")
	})
}
