package assignment

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// A member is ordered to stop only what was deleted, released there or placed with a later
// epoch, whatever the session's status and the report are. MayWithdraw decides on the others.
func TestEveryWithdrawalHasACauseOrIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sessiontest.With()
		s.Status.Epoch = rapid.Int64Range(0, 4).Draw(t, "epoch")
		members := []types.UID{sessiontest.Here, sessiontest.Elsewhere}
		if rapid.Bool().Draw(t, "placed") && s.Status.Epoch > 0 {
			sessiontest.PlacedAt(rapid.SampledFrom(members).Draw(t, "at"), rapid.Int64Range(1, s.Status.Epoch).Draw(t, "of"))(s)
		}
		if rapid.Bool().Draw(t, "released") && s.Status.Epoch > 0 {
			sessiontest.ReleasingAt(rapid.SampledFrom(members).Draw(t, "from"), rapid.Int64Range(1, s.Status.Epoch).Draw(t, "upTo"))(s)
		}
		if rapid.Bool().Draw(t, "deleted") {
			s.DeletionTimestamp = &metav1.Time{Time: sessiontest.Now}
		}
		var reported *v1alpha1.SessionAssignment
		if rapid.Bool().Draw(t, "reports") {
			state := rapid.SampledFrom([]v1alpha1.AssignmentState{v1alpha1.AssignmentActive, v1alpha1.AssignmentStopping, v1alpha1.AssignmentStopped, v1alpha1.AssignmentRefused})
			reported = sessiontest.Reported(state.Draw(t, "state"), rapid.Int64Range(1, 5).Draw(t, "reported"), "hash")
		}
		if next, _ := Plan(s, sessiontest.Here, reported, "hash"); next != Withdraw {
			return
		}
		w := status.DesiredIn(s, sessiontest.Here)
		deleted, released, superseded := !s.DeletionTimestamp.IsZero(), w.Stop, reported != nil && reported.Spec.Epoch < max(s.Status.Epoch, w.Epoch)
		if caused := deleted || released || superseded; caused == causeless(s, sessiontest.Here, reported) {
			t.Fatalf("deleted %t, released %t, superseded %t, and causeless is %t", deleted, released, superseded, !caused)
		}
	})
}

func TestWithdrawalThatIsHeldBackIsNotSent(t *testing.T) {
	for _, held := range []bool{false, true} {
		h := newInMemory(t, nil)
		h.Fleet = &members{withholds: held}
		s := sessiontest.With(func(s *v1alpha1.VDISession) { s.Status.Epoch = 1 })
		v := &visit{member: h.member, Report: Report{Ref: v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here}, Assignment: sessiontest.Reported(v1alpha1.AssignmentActive, 1, "old")}, session: s}
		_, err := h.act(t.Context(), requestOf("eu", s), v)
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(h.member.withdrawn == 0).To(Equal(held))
	}
}
