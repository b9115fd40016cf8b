package session

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// observed is a fleet that records which sessions are reported gone.
type observed struct {
	*oneMember
	gone []types.UID
}

func (o *observed) Observe(s *v1alpha1.VDISession, gone bool) {
	if gone {
		o.gone = append(o.gone, s.UID)
	}
}

// A session was deleted and created again under its name while the watch was
// interrupted: the list that follows shows that as a change of one object.
func TestSessionThatWasRecreatedUnseenIsRemoved(t *testing.T) {
	g := NewWithT(t)
	o := &observed{oneMember: &oneMember{}}
	r := &Reconciler{Departures: &assignment.Departures{}, Fleet: o, Reservations: o}
	before, after := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), sessiontest.With()
	after.UID = "uid-of-the-next"
	r.memory.Assigned(before.UID, 5)
	observer{r}.changed(before, after)
	g.Expect(o.gone).To(Equal([]types.UID{before.UID}))
	g.Expect(r.memory.LastEpoch(before.UID)).To(BeZero())
	g.Expect(r.Departures.Departed(assignment.KeyOf(before), sessiontest.Here)).To(BeFalse(), "no deletion was observed: after a restore the earlier object may be the later one")
	observer{r}.changed(after, after)
	g.Expect(o.gone).To(HaveLen(1))
}
