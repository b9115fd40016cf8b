package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
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
	r.add(sessiontest.Here, 1, "NoCapacity", "full", false, sessiontest.Now)
	r.add(sessiontest.Elsewhere, 2, "Invalid", "bad", false, sessiontest.Now.Add(refusalLasts))
	if diff := cmp.Diff(map[string]string{"uid-here": "NoCapacity: full", "uid-elsewhere": "Invalid: bad"}, textOf(&r, sessiontest.Now.Add(refusalLasts))); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"uid-elsewhere": "Invalid: bad"}, textOf(&r, sessiontest.Now.Add(refusalLasts+1))); diff != "" {
		t.Errorf("refusals, later (-want +got):\n%s", diff)
	}
	for at := time.Duration(0); ; {
		left := r.expiry(sessiontest.Now.Add(at))
		if left == 0 {
			break
		}
		before := len(r.of(sessiontest.Now.Add(at)))
		if at += left; len(r.of(sessiontest.Now.Add(at))) >= before {
			t.Fatalf("after %s there are still %d refusals", at, before)
		}
	}
	r.add(sessiontest.Here, 3, "NoCapacity", "full", false, sessiontest.Now.Add(refusalLasts+streakLasts+1))
	if r.streak != 1 {
		t.Errorf("%d refusals in a row, want the last alone", r.streak)
	}
}

func TestMemberThatDoesNotAllowASessionIsNotTriedAgainSoon(t *testing.T) {
	var r refused
	r.add(sessiontest.Here, 10, v1alpha1.RefusedNotAllowed, "host", false, sessiontest.Now)
	r.add(sessiontest.Elsewhere, 11, v1alpha1.RefusedNoCapacity, "full", false, sessiontest.Now)
	want := map[string]string{"uid-here": "NotAllowed: host"}
	if diff := cmp.Diff(want, textOf(&r, sessiontest.Now.Add(adminRefusalLasts))); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if left := textOf(&r, sessiontest.Now.Add(adminRefusalLasts+1)); len(left) != 0 {
		t.Errorf("it is never tried again: %v", left)
	}
}

func TestTooManyRefusalsInARowPauseTheSession(t *testing.T) {
	var r refused
	now := sessiontest.Now
	for i, most := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 30, 30, 30} {
		most *= time.Second
		pauses := r.pausesNext(int64(i+1), now)
		r.add(types.UID(fmt.Sprint("m", i)), int64(i+1), "NoCapacity", "full", false, now)
		pause := r.pause(now)
		if pauses != (most > 0) || pause > most || pause < most*9/10 {
			t.Errorf("refusal %d pauses %v for %s, want about %s", i+1, pauses, pause, most)
		}
		now = now.Add(pause)
		if r.pause(now) != 0 {
			t.Errorf("refusal %d: the pause does not end", i+1)
		}
	}
	var m Memory
	for i := range RefusalStreak {
		m.Refuse("s", types.UID(fmt.Sprint("m", i)), int64(i+1), "NoCapacity", "full", false, now)
	}
	known := func(session types.UID) Known {
		s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 4))
		s.UID = session
		return m.Known(s, now, func(types.UID) time.Time { return time.Time{} })
	}
	if known("other").Pause != 0 {
		t.Error("another session pauses too")
	}
	m.Stored("s")
	if known("s").PauseNext {
		t.Error("one refusal pauses, after a member took the session")
	}
}

// The write of a refusal may be repeated: the epoch counts once.
func TestRefusedEpochCountsOnce(t *testing.T) {
	var r refused
	for range 2 * RefusalStreak {
		r.add(sessiontest.Here, 1, "NoCapacity", "full", false, sessiontest.Now)
	}
	if r.streak != 1 || r.pause(sessiontest.Now) != 0 || r.pausesNext(1, sessiontest.Now) {
		t.Errorf("%d refusals of one epoch, and a pause of %s", r.streak, r.pause(sessiontest.Now))
	}
}

func TestRefusalIsLiftedByALaterReportAlone(t *testing.T) {
	var r refused
	r.add(sessiontest.Here, 5, "NoCapacity", "full", false, sessiontest.Now)
	r.add(sessiontest.Elsewhere, 6, "NoCapacity", "full", false, sessiontest.Now)
	r.add("uid-invalid", 7, "Invalid", "bad", false, sessiontest.Now)
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
	m := Memory{records: map[types.UID]*record{"s": {refused: &r}}}
	s := sessiontest.With()
	s.UID = "s"
	got := m.Known(s, sessiontest.Now, func(member types.UID) time.Time {
		if member == sessiontest.Elsewhere {
			return time.Time{}
		}
		return sessiontest.Now.Add(time.Second)
	}).Excluded
	if diff := cmp.Diff(map[types.UID]string{sessiontest.Elsewhere: "NoCapacity: full", "uid-invalid": "Invalid: bad"}, got); diff != "" {
		t.Errorf("members that are not tried (-want +got):\n%s", diff)
	}
}

func TestRefusalForLackOfAFreeSlotExcludesFreeSlotsOnly(t *testing.T) {
	never := func(types.UID) time.Time { return time.Time{} }
	for _, c := range []struct {
		name, reason string
		mayAddNode   bool
		before       func(*Memory)
		want         bool
	}{
		{name: "no free slot", reason: v1alpha1.RefusedNoCapacity, want: true},
		{name: "no slot of any kind", reason: v1alpha1.RefusedNoCapacity, mayAddNode: true},
		{name: "another reason", reason: v1alpha1.RefusedInvalid},
		{name: "a member that it was moved out of", reason: v1alpha1.RefusedNoCapacity, before: func(m *Memory) {
			m.Avoid("s", sessiontest.Here, sessiontest.Now)
		}},
	} {
		m, s := &Memory{}, sessiontest.With()
		s.UID = "s"
		if c.before != nil {
			c.before(m)
		}
		m.Refuse("s", sessiontest.Here, 1, c.reason, "full", c.mayAddNode, sessiontest.Now)
		known := m.Known(s, sessiontest.Now, never)
		if _, excluded := known.Excluded[sessiontest.Here]; !excluded || known.RefusedFree.Has(sessiontest.Here) != c.want {
			t.Errorf("%s: excluded %v, free slots only %v", c.name, known.Excluded, known.RefusedFree)
		}
		if known = m.Known(s, sessiontest.Now.Add(refusalLasts+1), never); len(known.RefusedFree) > 0 {
			t.Errorf("%s: %v refuse it for too long", c.name, known.RefusedFree)
		}
	}
}
