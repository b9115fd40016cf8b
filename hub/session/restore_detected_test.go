package session

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// recordedRestores counts the calls that record a restore of the hub.
type recordedRestores struct {
	times int
	fails error
}

func (n *recordedRestores) Last() Restore { return Restore{} }

func (n *recordedRestores) Detected(context.Context) error {
	n.times++
	return n.fails
}

// A member proves a later epoch than the hub has. The restore is recorded before the
// epoch is adopted, and not recorded if only the cache is behind.
func TestRestoreThatAnEpochShowsIsRecordedFirst(t *testing.T) {
	h, _ := placedInMemory(t)
	n := &recordedRestores{fails: errors.New("etcd is away")}
	h.Restores = n
	later := h.stored()
	later.Status.Epoch, later.Status.Placement.Epoch = 9, 9
	h.Expect(h.Orders.Secrets.Keep(t.Context(), later, &v1alpha1.TemplateSpec{})).To(Succeed())
	order, err := h.Orders.For(t.Context(), later, v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here})
	h.Expect(err).NotTo(HaveOccurred())
	reported := sessiontest.Reported(v1alpha1.AssignmentActive, 9, order.Hash)
	reported.Spec = order.Assignment.Spec
	h.member.away, h.member.reported = false, reported

	h.cached = h.stored()
	h.edit(func(s *v1alpha1.VDISession) { s.Labels = map[string]string{"changed": "since"} })
	_, err = h.reconcile()
	h.Expect(err).NotTo(HaveOccurred(), "it is a conflict")
	h.Expect(n.times).To(BeZero(), "the cache is behind")
	h.cached = nil

	_, err = h.reconcile()
	h.Expect(err).To(MatchError(n.fails))
	h.Expect(h.stored().Status.Placement.Epoch).To(Equal(int64(1)), "nothing is adopted before it is recorded")

	n.fails = nil
	_, err = h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(n.times).To(Equal(2))
	h.Expect(h.stored().Status.Placement.Epoch).To(Equal(int64(9)))
}
