package session

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Whatever the hub's status and a member's report are: what the member is told to
// stop was deleted, given up there or given a later epoch, or the safeguard is asked.
func TestEveryWithdrawalHasACauseOrIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sessiontest.With()
		s.Status.Epoch = rapid.Int64Range(0, 4).Draw(t, "epoch")
		members := []types.UID{sessiontest.Here, elsewhere}
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
		if next, _ := plan(s, sessiontest.Here, reported, "hash"); next != stepWithdraw {
			return
		}
		w := status.DesiredIn(s, sessiontest.Here)
		deleted, released, superseded := !s.DeletionTimestamp.IsZero(), w.Stop, reported != nil && reported.Spec.Epoch < max(s.Status.Epoch, w.Epoch)
		if caused := deleted || released || superseded; caused == causeless(s, sessiontest.Here, reported) {
			t.Fatalf("deleted %t, released %t, superseded %t, and causeless is %t", deleted, released, superseded, !caused)
		}
	})
}

// withdrawing counts what a member is told to stop.
type withdrawing struct {
	client.Client
	count int
}

func (w *withdrawing) Delete(_ context.Context, _ client.Object, _ ...client.DeleteOption) error {
	w.count++
	return nil
}

func TestWithdrawalThatIsHeldBackIsNotSent(t *testing.T) {
	for _, held := range []bool{false, true} {
		h := newHubInMemory(t)
		h.fleet.withholds = held
		box := &withdrawing{}
		r := h.assignments()
		s := sessiontest.With(func(s *v1alpha1.VDISession) { s.Status.Epoch = 1 })
		v := &visit{member: box, ref: v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here}, session: s, reported: sessiontest.Reported(v1alpha1.AssignmentActive, 1, "old")}
		_, err := r.act(t.Context(), mcreconcile.Request{}, v)
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(box.count == 0).To(Equal(held))
	}
}
