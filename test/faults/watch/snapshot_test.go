package watch

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// A retry that a user requests while the session waits to resume is no disagreement; one of a
// session that runs is.
func TestASessionThatWaitsToResumeHasItsPreviousAttempt(t *testing.T) {
	g := NewWithT(t)
	session := &v1alpha1.VDISession{}
	session.UID = "uid"
	session.Spec.Attempt = 1
	session.Status.Phase, session.Status.Message = v1alpha1.PhasePending, "no capacity to resume it"
	session.Status.Placement = &v1alpha1.Placement{ClusterName: "eu", Epoch: 1, Idle: true}
	held := &v1alpha1.SessionAssignment{}
	held.Spec.Epoch, held.Spec.RunState = 1, v1alpha1.ModeSuspended
	s := &Snapshot{assignments: map[string]map[types.UID]*v1alpha1.SessionAssignment{"eu": {"uid": held}}}
	g.Expect(s.settled(session)).To(Succeed())

	session.Status.Placement.Idle, held.Spec.RunState = false, v1alpha1.ModeRunning
	g.Expect(s.settled(session)).To(MatchError(ContainSubstring("wanted in attempt 1")))
}
