package assignment

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// visitOf returns the visit of a session in the member "eu".
func (h *inMemory) visitOf(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) *visit {
	v := &visit{member: h.member, Report: Report{Ref: v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here}, Assignment: reported}, session: s}
	if v.desired().Run {
		v.order = &Order{Hash: "hash", Assignment: Render(s, &v1alpha1.TemplateSpec{}, "example.com", secret.Set{})}
	}
	return v
}

// A restored hub that waits for its members' reports has the placements of the backup: it
// sends a member no order that starts a desktop, and none that stops one unless the session
// was released there or deleted.
func TestOrdersDuringARecovery(t *testing.T) {
	active := func(epoch int64, hash string) *v1alpha1.SessionAssignment {
		return sessiontest.Reported(v1alpha1.AssignmentActive, epoch, hash)
	}
	lacksSecrets := active(5, "hash")
	lacksSecrets.Status.MissingSecrets = []string{"access"}
	type orders struct{ assigned, withdrawn int }
	for _, c := range []struct {
		name            string
		session         *v1alpha1.VDISession
		reported        *v1alpha1.SessionAssignment
		during, without orders
	}{
		{"placed there, and the member holds nothing", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), nil, orders{}, orders{assigned: 1}},
		{"placed there, and the member holds an earlier epoch", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), active(4, "hash"), orders{}, orders{assigned: 1}},
		{"placed there, with another spec", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), active(5, "other"), orders{}, orders{assigned: 1}},
		{"placed there, without its Secrets", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), lacksSecrets, orders{}, orders{assigned: 1}},
		{"placed elsewhere since", sessiontest.With(sessiontest.PlacedAt(sessiontest.Elsewhere, 5)), active(4, "hash"), orders{}, orders{withdrawn: 1}},
		{"not placed", sessiontest.With(), active(5, "hash"), orders{}, orders{withdrawn: 1}},
		{"released there", sessiontest.With(sessiontest.ReleasingAt(sessiontest.Here, 5)), active(5, "hash"), orders{withdrawn: 1}, orders{withdrawn: 1}},
		{"deleted", sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.Deleted), active(5, "hash"), orders{withdrawn: 1}, orders{withdrawn: 1}},
	} {
		for recovers, want := range map[bool]orders{true: c.during, false: c.without} {
			h := newInMemory(t, c.session)
			h.Fleet, h.Sessions = &members{recovers: recovers}, &sessions{assigned: 5}
			result, err := h.act(t.Context(), requestOf("eu", c.session), h.visitOf(c.session, c.reported))
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(orders{h.member.assigned, h.member.withdrawn}).To(Equal(want), "%s, in recovery %t", c.name, recovers)
			if recovers && want == (orders{}) {
				h.Expect(result.RequeueAfter).To(Equal(RecoveryPoll), "%s: it is reconciled again", c.name)
			}
		}
	}
}

// A placement of a backup may have ended in its member since then, which uses up its epoch:
// it is not ordered if the member does not run it.
func TestPlacementOfABackupIsNotOrderedAgain(t *testing.T) {
	placed := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	for _, c := range []struct {
		name         string
		lastAssigned int64
		reported     *v1alpha1.SessionAssignment
		assigned     int
	}{
		{"the hub was never restored", 0, nil, 1},
		{"it was, and the member holds nothing", 100, nil, 0},
		{"it was, and an earlier epoch has ended there", 100, sessiontest.Reported(v1alpha1.AssignmentStopped, 4, ""), 0},
		{"it was, and the member holds another spec", 100, sessiontest.Reported(v1alpha1.AssignmentActive, 5, "other"), 1},
		{"it was, and the placement is of a later epoch", 4, nil, 1},
	} {
		h := newInMemory(t, placed)
		h.Sessions = &sessions{assigned: 5, lastAssigned: c.lastAssigned}
		_, err := h.act(t.Context(), requestOf("eu", placed), h.visitOf(placed, c.reported))
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(h.member.assigned).To(Equal(c.assigned), c.name)
	}
}
