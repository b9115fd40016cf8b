package assignment

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// An epoch of an earlier leader is not ordered if the cache is older than that leader's last
// write.
func TestOldViewAssignsNothing(t *testing.T) {
	placed := func(member func(*v1alpha1.VDISession), epoch int64) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { member(s); s.Status.Epoch = epoch }
	}
	here := placed(sessiontest.PlacedAt(sessiontest.Here, 1), 1)
	for _, c := range []struct {
		name     string
		stored   func(*v1alpha1.VDISession) // since the view
		assigned int64                      // by this leader
		reported *v1alpha1.SessionAssignment
		ordered  bool
	}{
		{name: "it is as it was", stored: here, ordered: true},
		{name: "it has ended", stored: func(s *v1alpha1.VDISession) { s.Status.Epoch = 1 }},
		{name: "it was placed elsewhere", stored: placed(sessiontest.PlacedAt(sessiontest.Elsewhere, 2), 2)},
		{name: "it was rescheduled", stored: placed(sessiontest.PlacedAt(sessiontest.Here, 2), 2)},
		{name: "this leader assigned a later epoch", stored: here, assigned: 1, ordered: true},
		{name: "the member has it", stored: here, reported: sessiontest.Reported(v1alpha1.AssignmentActive, 1, "old"), ordered: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newInMemory(t, sessiontest.With(c.stored))
			h.Sessions = &sessions{assigned: c.assigned}
			view := sessiontest.With(here)
			wanted := &Order{Assignment: Render(view, &v1alpha1.TemplateSpec{}, "example.com", secret.Set{})}
			_, err := h.assign(t.Context(), &visit{
				member: h.member, Report: Report{Ref: v1alpha1.ClusterRef{UID: sessiontest.Here}, Assignment: c.reported}, session: view, order: wanted,
			})
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(h.member.assigned == 1).To(Equal(c.ordered))
			h.Expect(h.Live.(*stores).reads == 0).To(Equal(c.assigned > 0 || c.reported != nil), "reads from the API server only where it must")
		})
	}
}

// A copy that a member proves to have been assigned under the placement's own epoch is not
// withdrawn before the session controller has handled it.
func TestCopyOfTheSameEpochIsCheckedFirst(t *testing.T) {
	reported := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash")
	for _, c := range []struct {
		name      string
		assigned  int64
		withdrawn int
	}{
		{"this leader has placed the other", 5, 0},
		{"an earlier leader has", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newInMemory(t, nil)
			owner := &sessions{assigned: c.assigned, lastAssigned: 5}
			h.Sessions = owner
			s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Elsewhere, 5), func(s *v1alpha1.VDISession) { s.Status.Epoch = 5 })
			v := &visit{member: h.member, Report: Report{Ref: v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here}, Assignment: reported, Proven: true}, session: s}
			_, err := h.act(t.Context(), requestOf("eu", s), v)
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(owner.claimed).To(Equal([]string{"eu"}))
			h.Expect(h.member.withdrawn).To(Equal(c.withdrawn))
		})
	}
}
