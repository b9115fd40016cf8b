package status

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestMirrorLease(t *testing.T) {
	fence := func(change func(*v1alpha1.Placement)) *v1alpha1.Placement {
		p := &v1alpha1.Placement{ClusterUID: sessiontest.Here, ClusterName: "eu", Epoch: 5, FailoverMode: v1alpha1.FailoverFence}
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
		{"a guard is recorded", func(*v1alpha1.Placement) {}, report(5, 0, true), true, 0, true, false},
		{"not before the member has stored the mode", func(*v1alpha1.Placement) {}, report(5, 0, true), false, 0, false, false},
		{"it is not reset with each change", func(p *v1alpha1.Placement) { p.Guarded = true }, report(5, 0, true), false, 0, true, false},
		{"a guard is gone", func(p *v1alpha1.Placement) { p.Guarded = true }, report(5, 0, false), false, 0, false, true},
		{"a held desktop is affirmed as well, and has no guard", func(p *v1alpha1.Placement) { p.FailoverMode = v1alpha1.FailoverHold }, report(5, 2, true), true, 2, false, true},
		{"not of an epoch that an operator's declaration has ended", func(p *v1alpha1.Placement) { p.FailoverMode = v1alpha1.FailoverHold }, report(4, 2, false), true, 0, false, false},
		{"a guard is of Fence alone", func(p *v1alpha1.Placement) { p.FailoverMode = v1alpha1.FailoverRestart }, report(5, 0, true), true, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			s := sessiontest.With()
			s.Status.Placement = fence(c.at)
			before := *s.Status.Placement
			mirrorLease(s, c.reported, c.stored)
			g.Expect(s.Status.Placement.Lapse).To(Equal(c.lapse))
			g.Expect(s.Status.Placement.Guarded).To(Equal(c.guarded))
			g.Expect(leaseUrgent(&before, s.Status.Placement)).To(Equal(c.urgent))
		})
	}
}

func TestFenceSessionShowsThatNoGuardRuns(t *testing.T) {
	g := NewWithT(t)
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.Yes, v1alpha1.ReasonPodReady))
	condition := func() string {
		showGuard(s)
		for _, c := range s.Status.Conditions {
			if c.Type == v1alpha1.ConditionFailoverReady {
				return string(c.Status) + "/" + c.Reason
			}
		}
		return ""
	}
	g.Expect(condition()).To(BeEmpty())
	s.Status.Placement.FailoverMode = v1alpha1.FailoverFence
	g.Expect(condition()).To(Equal("False/Unguarded"))
	s.Status.Placement.Guarded = true
	g.Expect(condition()).To(BeEmpty())
	s.Status.Placement.Guarded, s.Status.Placement.Idle = false, true
	g.Expect(condition()).To(BeEmpty(), "nothing runs that could run twice")
}

func TestMirrorIdleUsesTheHubsClock(t *testing.T) {
	g := NewWithT(t)
	s, reported, now := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), &v1alpha1.SessionAssignment{}, sessiontest.Now.Truncate(time.Second)
	far := metav1.NewTime(now.Add(9 * time.Hour)) // the member's clock
	reported.Status.IdleSince = &far
	MirrorIdle(s, reported, now, 5*time.Minute)
	g.Expect(s.Status.IdleSince.Time).To(BeTemporally("==", now.Add(-5*time.Minute)))
	MirrorIdle(s, reported, now.Add(time.Minute), 5*time.Minute)
	g.Expect(s.Status.IdleSince.Time).To(BeTemporally("==", now.Add(-5*time.Minute)))
	reported.Status.IdleSince = nil
	MirrorIdle(s, reported, now.Add(2*time.Minute), 5*time.Minute)
	g.Expect(s.Status.IdleSince).To(BeNil())
}
