package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func textOf(r *refusals, at time.Time) map[string]string {
	out := map[string]string{}
	for member, why := range r.of("s", at) {
		out[string(member)] = why
	}
	return out
}

func TestRefusalsFade(t *testing.T) {
	var r refusals
	r.add("s", here, "NoRoom", "full", testNow)
	r.add("s", elsewhere, "Invalid", "bad", testNow.Add(refusalLasts))
	if diff := cmp.Diff(map[string]string{"uid-here": "NoRoom: full", "uid-elsewhere": "Invalid: bad"}, textOf(&r, testNow.Add(refusalLasts))); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"uid-elsewhere": "Invalid: bad"}, textOf(&r, testNow.Add(refusalLasts+1))); diff != "" {
		t.Errorf("refusals, later (-want +got):\n%s", diff)
	}
	for at := time.Duration(0); ; {
		left := r.fade("s", testNow.Add(at))
		if left == 0 {
			break
		}
		before := len(r.of("s", testNow.Add(at)))
		if at += left; len(r.of("s", testNow.Add(at))) >= before {
			t.Fatalf("after %s there are still %d refusals", at, before)
		}
	}
	r.add("other", here, "NoRoom", "full", testNow.Add(refusalLasts+streakLasts+1))
	if len(r.by) != 1 {
		t.Errorf("%d sessions are remembered, want the last alone", len(r.by))
	}
}

func TestMemberThatDoesNotAllowASessionIsNotAskedAgainSoon(t *testing.T) {
	var r refusals
	r.add("s", here, v1alpha1.RefusedNotAllowed, "host", testNow)
	r.add("s", elsewhere, v1alpha1.RefusedNoRoom, "full", testNow)
	want := map[string]string{"uid-here": "NotAllowed: host"}
	if diff := cmp.Diff(want, textOf(&r, testNow.Add(refusalStays))); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if left := textOf(&r, testNow.Add(refusalStays+1)); len(left) != 0 {
		t.Errorf("it is never asked again: %v", left)
	}
}

func TestTooManyRefusalsInARowMakeAPause(t *testing.T) {
	var r refusals
	now := testNow
	for i, most := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 30, 30, 30} {
		most *= time.Second
		pauses := r.add("s", types.UID(fmt.Sprint("m", i)), "NoRoom", "full", now)
		pause := r.pause("s", now)
		if pauses != (most > 0) || pause > most || pause < most*9/10 {
			t.Errorf("refusal %d pauses %v for %s, want about %s", i+1, pauses, pause, most)
		}
		now = now.Add(pause)
		if r.pause("s", now) != 0 {
			t.Errorf("refusal %d: the pause does not end", i+1)
		}
	}
	if r.pause("other", now) != 0 {
		t.Error("another session pauses too")
	}
	r.forget("s")
	if r.add("s", here, "NoRoom", "full", now) || r.pause("s", now) != 0 {
		t.Error("one refusal pauses, after a member took the session")
	}
}

func TestRefusalIsLiftedByALaterReportAlone(t *testing.T) {
	var r refusals
	r.add("s", here, "NoRoom", "full", testNow)
	r.add("s", elsewhere, "NoRoom", "full", testNow)
	r.add("s", "uid-invalid", "Invalid", "bad", testNow)
	for _, c := range []struct {
		session, member types.UID
		reported        time.Time
		want            bool
	}{
		{"other", here, testNow.Add(time.Second), false},
		{"s", "unknown", testNow.Add(time.Second), false},
		{"s", here, testNow, false},
		{"s", "uid-invalid", testNow.Add(time.Second), false},
		{"s", here, testNow.Add(time.Second), true},
		{"s", here, testNow.Add(time.Second), false},
	} {
		if got := r.lift(c.session, c.member, c.reported); got != c.want {
			t.Errorf("lift of %s by %s, reported %s: %v, want %v", c.session, c.member, c.reported.Sub(testNow), got, c.want)
		}
	}
	if diff := cmp.Diff(map[string]string{"uid-elsewhere": "NoRoom: full", "uid-invalid": "Invalid: bad"}, textOf(&r, testNow)); diff != "" {
		t.Errorf("refusals that are left (-want +got):\n%s", diff)
	}
}

func TestSessionThatPausesSaysWhy(t *testing.T) {
	clock := clocktesting.NewFakeClock(testNow)
	r := &Reconciler{Clock: clock}
	p := &pass{session: inLine("desktops", "s", "ann", 0)}
	p.session.UID = "s"
	for _, member := range []types.UID{here, elsewhere} {
		r.refusals.add("s", member, "NoRoom", "full", testNow)
	}
	if r.pauses(p) || p.waits != nil {
		t.Fatal("it pauses after two refusals")
	}
	r.refusals.add("s", here, "Invalid", "bad", testNow)
	if !r.pauses(p) || p.waits == nil || p.waits.question != nil || p.again == 0 || p.again > refusalPause {
		t.Fatalf("after three it waits for %+v and is looked at after %s", p.waits, p.again)
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
