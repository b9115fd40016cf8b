package session

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

func TestSessionThatPausesSaysWhy(t *testing.T) {
	clock := clocktesting.NewFakeClock(sessiontest.Now)
	r := &Reconciler{Clock: clock}
	p := &pass{session: sessiontest.With(func(s *v1alpha1.VDISession) { s.UID = "s" })}
	for i, member := range []types.UID{sessiontest.Here, sessiontest.Elsewhere} {
		r.memory.Refuse("s", member, int64(i+1), "NoRoom", "full", sessiontest.Now)
	}
	if r.pauses(p) || p.waits != "" {
		t.Fatal("it pauses after two refusals")
	}
	r.memory.Refuse("s", sessiontest.Here, 9, "Invalid", "bad", sessiontest.Now)
	if !r.pauses(p) || p.waits != v1alpha1.ReasonRefused || p.again == 0 || p.again > memory.RefusalPause {
		t.Fatalf("after three it waits for %q and is looked at after %s", p.waits, p.again)
	}
	c := meta.FindStatusCondition(p.session.Status.Conditions, v1alpha1.ConditionScheduled)
	if want := "refused: Invalid: bad; NoRoom: full; it is tried again after a pause"; c == nil || c.Reason != v1alpha1.ReasonRefused || c.Message != want {
		t.Errorf("it says %+v, want %q", c, want)
	}
	c.Message = "eu refused it: Invalid: bad; and so on"
	if r.pauses(p); c.Message != "eu refused it: Invalid: bad; and so on" {
		t.Errorf("what the refusal said is written over: %q", c.Message)
	}
	clock.Step(memory.RefusalPause)
	if r.pauses(p) {
		t.Error("the pause does not end")
	}
}

// The write that gives up a refused placement comes too late, twice, and is made
// again: the refusal is one.
func TestRefusalThatIsRecordedAgainCountsOnce(t *testing.T) {
	h := newHubInMemory(t)
	h.edit(func(s *v1alpha1.VDISession) { sessiontest.PlacedAt(sessiontest.Here, 1)(s); s.Status.Epoch = 1 })
	refused := sessiontest.Reported(v1alpha1.AssignmentRefused, 1, "")
	refused.Status.Reason, refused.Status.Message = v1alpha1.RefusedNoRoom, "full"
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
	_, pause, _ := h.Reconciler.memory.Refusals(s.UID, h.Clock.Now())
	h.Expect(pause).To(BeZero(), "one refusal makes no streak")
	h.Expect(h.says(v1alpha1.ConditionScheduled)).NotTo(ContainSubstring("in a row"))
}

func placementsRefused(g *WithT) float64 {
	var m dto.Metric
	g.Expect(placements.WithLabelValues("refused").Write(&m)).To(Succeed())
	return m.GetCounter().GetValue()
}
