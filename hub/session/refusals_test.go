package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
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
