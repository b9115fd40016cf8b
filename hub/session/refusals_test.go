package session

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

func textOf(r *refused, at time.Time) map[string]string {
	out := map[string]string{}
	for member, why := range r.of(at) {
		out[string(member)] = why
	}
	return out
}

func TestRefusalsFade(t *testing.T) {
	var r refused
	r.add(sessiontest.Here, 1, "NoRoom", "full", sessiontest.Now)
	r.add(sessiontest.Elsewhere, 2, "Invalid", "bad", sessiontest.Now.Add(refusalLasts))
	if diff := cmp.Diff(map[string]string{"uid-here": "NoRoom: full", "uid-elsewhere": "Invalid: bad"}, textOf(&r, sessiontest.Now.Add(refusalLasts))); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"uid-elsewhere": "Invalid: bad"}, textOf(&r, sessiontest.Now.Add(refusalLasts+1))); diff != "" {
		t.Errorf("refusals, later (-want +got):\n%s", diff)
	}
	for at := time.Duration(0); ; {
		left := r.fade(sessiontest.Now.Add(at))
		if left == 0 {
			break
		}
		before := len(r.of(sessiontest.Now.Add(at)))
		if at += left; len(r.of(sessiontest.Now.Add(at))) >= before {
			t.Fatalf("after %s there are still %d refusals", at, before)
		}
	}
	r.add(sessiontest.Here, 3, "NoRoom", "full", sessiontest.Now.Add(refusalLasts+streakLasts+1))
	if r.streak != 1 {
		t.Errorf("%d refusals in a row, want the last alone", r.streak)
	}
}

func TestMemberThatDoesNotAllowASessionIsNotAskedAgainSoon(t *testing.T) {
	var r refused
	r.add(sessiontest.Here, 10, v1alpha1.RefusedNotAllowed, "host", sessiontest.Now)
	r.add(sessiontest.Elsewhere, 11, v1alpha1.RefusedNoRoom, "full", sessiontest.Now)
	want := map[string]string{"uid-here": "NotAllowed: host"}
	if diff := cmp.Diff(want, textOf(&r, sessiontest.Now.Add(refusalStays))); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if left := textOf(&r, sessiontest.Now.Add(refusalStays+1)); len(left) != 0 {
		t.Errorf("it is never asked again: %v", left)
	}
}

func TestTooManyRefusalsInARowMakeAPause(t *testing.T) {
	var r refused
	now := sessiontest.Now
	for i, most := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 30, 30, 30} {
		most *= time.Second
		pauses := r.add(types.UID(fmt.Sprint("m", i)), int64(i+1), "NoRoom", "full", now)
		pause := r.pause(now)
		if pauses != (most > 0) || pause > most || pause < most*9/10 {
			t.Errorf("refusal %d pauses %v for %s, want about %s", i+1, pauses, pause, most)
		}
		now = now.Add(pause)
		if r.pause(now) != 0 {
			t.Errorf("refusal %d: the pause does not end", i+1)
		}
	}
	var m memory
	for i := range refusalStreak {
		m.refuse("s", types.UID(fmt.Sprint("m", i)), int64(i+1), "NoRoom", "full", now)
	}
	if _, pause, _ := m.refusals("other", now); pause != 0 {
		t.Error("another session pauses too")
	}
	m.taken("s")
	if m.refuse("s", sessiontest.Here, 4, "NoRoom", "full", now) {
		t.Error("one refusal pauses, after a member took the session")
	}
}

func TestRefusalIsLiftedByALaterReportAlone(t *testing.T) {
	var r refused
	r.add(sessiontest.Here, 5, "NoRoom", "full", sessiontest.Now)
	r.add(sessiontest.Elsewhere, 6, "NoRoom", "full", sessiontest.Now)
	r.add("uid-invalid", 7, "Invalid", "bad", sessiontest.Now)
	for _, c := range []struct {
		member   types.UID
		reported time.Time
		want     bool
	}{
		{"unknown", sessiontest.Now.Add(time.Second), false},
		{sessiontest.Here, sessiontest.Now, false},
		{"uid-invalid", sessiontest.Now.Add(time.Second), false},
		{sessiontest.Here, sessiontest.Now.Add(time.Second), true},
	} {
		if got := r.lifted(c.member, c.reported); got != c.want {
			t.Errorf("lifted by %s, reported %s: %v, want %v", c.member, c.reported.Sub(sessiontest.Now), got, c.want)
		}
	}
	m := memory{records: map[types.UID]*record{"s": {refused: &r}}}
	got := m.unwilling("s", sessiontest.Now, func(member types.UID) time.Time {
		if member == sessiontest.Elsewhere {
			return time.Time{}
		}
		return sessiontest.Now.Add(time.Second)
	})
	if diff := cmp.Diff(map[types.UID]string{sessiontest.Elsewhere: "NoRoom: full", "uid-invalid": "Invalid: bad"}, got); diff != "" {
		t.Errorf("members that are not asked (-want +got):\n%s", diff)
	}
}

func TestSessionThatPausesSaysWhy(t *testing.T) {
	clock := clocktesting.NewFakeClock(sessiontest.Now)
	r := &Reconciler{Clock: clock}
	p := &pass{session: sessiontest.With(func(s *v1alpha1.VDISession) { s.UID = "s" })}
	for i, member := range []types.UID{sessiontest.Here, sessiontest.Elsewhere} {
		r.memory.refuse("s", member, int64(i+1), "NoRoom", "full", sessiontest.Now)
	}
	if r.pauses(p) || p.waits != "" {
		t.Fatal("it pauses after two refusals")
	}
	r.memory.refuse("s", sessiontest.Here, 9, "Invalid", "bad", sessiontest.Now)
	if !r.pauses(p) || p.waits != v1alpha1.ReasonRefused || p.again == 0 || p.again > refusalPause {
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
	clock.Step(refusalPause)
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
	for range 2 * refusalStreak {
		_, err := h.update(t.Context(), requestFor(h.stored()))
		h.Expect(err).To(MatchError(apierrors.IsConflict, "a conflict"))
	}
	h.Expect(placementsRefused(h.WithT)).To(Equal(before))
	h.answer = nil
	_, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	s := h.stored()
	h.Expect(placementsRefused(h.WithT)).To(Equal(before + 1))
	_, pause, _ := h.Reconciler.memory.refusals(s.UID, h.Clock.Now())
	h.Expect(pause).To(BeZero(), "one refusal makes no streak")
	h.Expect(h.says(v1alpha1.ConditionScheduled)).NotTo(ContainSubstring("in a row"))
}

func placementsRefused(g *WithT) float64 {
	var m dto.Metric
	g.Expect(placements.WithLabelValues("refused").Write(&m)).To(Succeed())
	return m.GetCounter().GetValue()
}
