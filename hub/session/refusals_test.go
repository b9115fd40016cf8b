package session

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// The write that releases a refused placement conflicts, and is repeated: the refusal
// counts once.
func TestRefusalThatIsRecordedAgainCountsOnce(t *testing.T) {
	h := newHubInMemory(t)
	h.edit(func(s *v1alpha1.VDISession) { sessiontest.PlacedAt(sessiontest.Here, 1)(s); s.Status.Epoch = 1 })
	refused := sessiontest.Reported(v1alpha1.AssignmentRefused, 1, "")
	refused.Status.Reason, refused.Status.Message = v1alpha1.RefusedNoCapacity, "full"
	before := placementsRefused(h.WithT)
	h.answer = apierrors.NewConflict(schema.GroupResource{Resource: "vdisessions"}, "mine", errors.New("it has changed"))
	h.member.away, h.member.reported = false, refused
	for range 2 * memory.RefusalStreak {
		_, err := h.update(t.Context(), requestFor(h.stored()))
		h.Expect(err).To(MatchError(apierrors.IsConflict, "a conflict"))
	}
	h.Expect(placementsRefused(h.WithT)).To(Equal(before))
	h.answer = nil
	_, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	s := h.stored()
	h.Expect(placementsRefused(h.WithT)).To(Equal(before + 1))
	pause := h.Reconciler.memory.Known(s, h.Clock.Now(), h.fleet.ReportedAt).Pause
	h.Expect(pause).To(BeZero(), "one refusal makes no streak")
	h.Expect(h.condition(v1alpha1.ConditionScheduled)).NotTo(ContainSubstring("in a row"))
}

// A member that was permitted to add a node and refuses has no slot of any kind.
func TestRefusalOfAnOrderThatMayAddANodeExcludesTheMember(t *testing.T) {
	for reason, freeOnly := range map[string]bool{v1alpha1.ReasonPlaced: true, v1alpha1.ReasonPlacedOnNewNode: false} {
		h := newHubInMemory(t)
		h.edit(func(s *v1alpha1.VDISession) {
			sessiontest.PlacedAt(sessiontest.Here, 1)(s)
			sessiontest.Condition(v1alpha1.ConditionScheduled, sessiontest.Yes, reason)(s)
			s.Status.Epoch = 1
		})
		refused := sessiontest.Reported(v1alpha1.AssignmentRefused, 1, "")
		refused.Status.Reason, refused.Status.Message = v1alpha1.RefusedNoCapacity, "full"
		h.member.away, h.member.reported = false, refused
		_, err := h.reconcile()
		h.Expect(err).NotTo(HaveOccurred())
		known := h.Reconciler.memory.Known(h.stored(), h.Clock.Now(), func(types.UID) time.Time { return time.Time{} })
		h.Expect(known.Excluded).To(HaveKey(sessiontest.Here))
		h.Expect(known.RefusedFree.Has(sessiontest.Here)).To(Equal(freeOnly), reason)
	}
}

func TestPlacementsAreCountedByTheKindOfTheirSlot(t *testing.T) {
	g := NewWithT(t)
	result := func(result string, kind placement.Kind) string {
		return resultOf(&lifecycle.Write{Result: result, Decision: placement.Decision{Kind: kind}})
	}
	g.Expect(result(lifecycle.ResultPlaced, placement.Free)).To(Equal("placed"))
	g.Expect(result(lifecycle.ResultPlaced, placement.Provisioning)).To(Equal("provisioning"))
	g.Expect(result(lifecycle.ResultPlaced, placement.Growable)).To(Equal("growable"))
	g.Expect(result(lifecycle.ResultFailedOver, placement.Growable)).To(Equal("failedOver"))
}

func placementsRefused(g *WithT) float64 {
	var m dto.Metric
	g.Expect(placements.WithLabelValues("refused").Write(&m)).To(Succeed())
	return m.GetCounter().GetValue()
}
