package failover

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var (
	start  = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	normal = DefaultTimings(1)
	long   = start.Add(-time.Hour)
)

func ptr(d time.Duration) *time.Duration { return &d }

// silent returns a member that sent its last heartbeat, and was granted a renewal, that long
// ago, and became Unreachable 40 s later.
func silent(ago time.Duration) Member {
	heartbeat := start.Add(-ago)
	return Member{Name: "eu-west", Unreachable: true, LostAt: heartbeat.Add(40 * time.Second), LastHeartbeat: heartbeat, GrantedAt: heartbeat}
}

func TestDecide(t *testing.T) {
	leads := Fleet{Now: start, LedSince: long}
	restart := Session{Mode: v1alpha1.FailoverRestart}
	fence := Session{Mode: v1alpha1.FailoverFence, Guarded: true}
	hold := Session{Mode: v1alpha1.FailoverHold}
	fenced := silent(45 * time.Second)
	fenced.Fenced = true
	for name, test := range map[string]struct {
		session Session
		member  Member
		fleet   Fleet
		due     bool
		wait    time.Duration
		reason  string
		message []string
	}{
		"a member that is reachable": {session: restart, member: Member{Name: "eu-west"}, fleet: leads},
		"Restart, just lost": {
			session: restart, member: silent(45 * time.Second), fleet: leads, wait: 55 * time.Second, reason: v1alpha1.ReasonMemberUnreachable,
			message: []string{"member eu-west has sent no heartbeat since 2026-03-01T09:59:15Z: unless it reconnects, the session is rescheduled at 2026-03-01T10:00:55Z"},
		},
		"Restart, after its time": {
			session: restart, member: silent(100 * time.Second), fleet: leads, due: true, reason: v1alpha1.ReasonMemberUnreachable,
			message: []string{"member eu-west has sent no heartbeat since 2026-03-01T09:58:20Z"},
		},
		"Restart, with a wait of its own": {
			session: Session{Mode: v1alpha1.FailoverRestart, After: ptr(0)}, member: silent(40 * time.Second), fleet: leads, due: true,
			reason: v1alpha1.ReasonMemberUnreachable,
		},
		"Restart, of a new leader": {
			session: restart, member: silent(10 * time.Minute), fleet: Fleet{Now: start, LedSince: start.Add(-time.Minute)}, wait: 4 * time.Minute,
			reason: v1alpha1.ReasonMemberUnreachable, message: []string{"at 2026-03-01T10:04:00Z: the hub has led, or run without a pause, only since 2026-03-01T09:59:00Z"},
		},
		"Fence, before R": {
			session: fence, member: silent(299 * time.Second), fleet: leads, wait: time.Second, reason: v1alpha1.ReasonMemberUnreachable,
			message: []string{"when its lease there is over for certain"},
		},
		"Fence, after R":                  {session: fence, member: silent(300 * time.Second), fleet: leads, due: true, reason: v1alpha1.ReasonMemberUnreachable},
		"Fence takes no wait of its own":  {session: Session{Mode: v1alpha1.FailoverFence, After: ptr(0), Guarded: true}, member: silent(299 * time.Second), fleet: leads, wait: time.Second, reason: v1alpha1.ReasonMemberUnreachable},
		"Fence without a guard, ever":     {session: Session{Mode: v1alpha1.FailoverFence}, member: silent(24 * time.Hour), fleet: leads, reason: v1alpha1.ReasonMemberUnreachable, message: []string{"no guard", "as with mode Hold", "kubectl vdi fence eu-west"}},
		"Hold, ever":                      {session: hold, member: silent(24 * time.Hour), fleet: leads, reason: v1alpha1.ReasonMemberUnreachable, message: []string{"mode Hold", "kubectl vdi fence eu-west"}},
		"an unknown mode":                 {session: Session{}, member: silent(24 * time.Hour), fleet: leads, reason: v1alpha1.ReasonMemberUnreachable, message: []string{"mode Hold"}},
		"Restart, while the hub is alone": {session: restart, member: silent(time.Hour), fleet: Fleet{Now: start, LedSince: long, Degradation: Degradation{CutOff: true}}, reason: v1alpha1.ReasonMemberUnreachable, message: []string{"the hub itself may be cut off", "kubectl vdi fence eu-west"}},
		"Hold, declared fenced":           {session: hold, member: fenced, fleet: Fleet{Now: start, LedSince: start, Degradation: Degradation{CutOff: true}}, due: true, reason: v1alpha1.ReasonMemberFenced, message: []string{"declared fenced"}},
		"Fence without a guard, declared": {session: Session{Mode: v1alpha1.FailoverFence}, member: fenced, fleet: leads, due: true, reason: v1alpha1.ReasonMemberFenced},
		"a member that was removed":       {session: hold, member: Member{Removed: true}, fleet: leads, due: true, reason: v1alpha1.ReasonMemberFenced, message: []string{"removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := Facts{normal, test.member, test.fleet}.Decide(test.session)
			if v.Due != test.due || v.Wait != test.wait || v.Reason != test.reason || v.Lost() != (test.reason != "") {
				t.Errorf("got %+v", v)
			}
			if (v.Message == "") != (test.reason == "") {
				t.Errorf("the message is %q", v.Message)
			}
			for _, part := range test.message {
				if !strings.Contains(v.Message, part) {
					t.Errorf("%q does not contain %q", v.Message, part)
				}
			}
		})
	}
}

func TestTimings(t *testing.T) {
	for _, factor := range []float64{0.01, 0.05, 1, 3} {
		if err := DefaultTimings(factor).Validate(); err != nil {
			t.Errorf("factor %v: %v", factor, err)
		}
	}
	for want, change := range map[string]func(*Timings){
		"regain is 4m32s, and with a lease of 3m0s it must be at least 4m32.447s; raise it": func(t *Timings) { t.Regain = 272 * time.Second },
		"after is -1s":                   func(t *Timings) { t.After = -time.Second },
		"more than 0":                    func(t *Timings) { t.Lease = 0 },
		"and slack 0s":                   func(t *Timings) { t.Slack = 0 },
		"it must be at least 12m16.658s": func(t *Timings) { t.Lease = 10 * time.Minute },
	} {
		timings := normal
		change(&timings)
		if err := timings.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
}

// world is any state of a session's member and of the fleet.
type world struct {
	session Session
	member  Member
	fleet   Fleet
}

func drawWorld(t *rapid.T) world {
	ago := func(label string) time.Time {
		return start.Add(-time.Duration(rapid.Int64Range(0, int64(15*time.Minute)).Draw(t, label)))
	}
	w := world{
		session: Session{
			Mode:    rapid.SampledFrom([]v1alpha1.FailoverMode{v1alpha1.FailoverRestart, v1alpha1.FailoverFence, v1alpha1.FailoverHold, ""}).Draw(t, "mode"),
			Guarded: rapid.Bool().Draw(t, "guarded"),
		},
		member: Member{
			Name: "m", Unreachable: rapid.Bool().Draw(t, "unreachable"), Fenced: rapid.IntRange(0, 4).Draw(t, "fenced") == 0,
			LostAt: ago("lost"), LastHeartbeat: ago("heartbeat"), GrantedAt: ago("granted"),
		},
		fleet: Fleet{Now: start, LedSince: ago("led"), Degradation: Degradation{CutOff: rapid.IntRange(0, 3).Draw(t, "cutOff") == 0}},
	}
	if rapid.Bool().Draw(t, "own") {
		w.session.After = ptr(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "after")))
	}
	return w
}

func (w world) verdict() Verdict { return Facts{normal, w.member, w.fleet}.Decide(w.session) }

// G1 depends on the conditions of Fence and Hold sessions.
func TestFailoverByTimeMeetsItsConditions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		v, now := w.verdict(), w.fleet.Now
		switch {
		case !v.Due || w.member.Fenced:
			return
		case w.session.Mode == v1alpha1.FailoverFence && now.Sub(w.member.GrantedAt) < normal.Regain:
			t.Fatalf("a Fence session %s after the last grant: %+v", now.Sub(w.member.GrantedAt), v)
		case w.session.Mode == v1alpha1.FailoverFence && !w.session.Guarded:
			t.Fatalf("a Fence session that nothing stops: %+v", v)
		case w.session.Mode == v1alpha1.FailoverHold, w.session.Mode == "":
			t.Fatalf("a Hold session: %+v", v)
		case w.fleet.CutOff:
			t.Fatalf("while all others are gone: %+v", v)
		case now.Sub(w.fleet.LedSince) < normal.Regain:
			t.Fatalf("of a hub that has led for %s: %+v", now.Sub(w.fleet.LedSince), v)
		case !w.member.Unreachable:
			t.Fatalf("of a member that is not lost: %+v", v)
		}
	})
}

func TestADeclarationOfAnOperatorHoldsForAllModes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.member.Fenced = true
		if v := w.verdict(); !v.Due || v.Wait != 0 || v.Reason != v1alpha1.ReasonMemberFenced {
			t.Fatalf("got %+v", v)
		}
	})
}

// A session is not due just before its wait is over, is due after it, and stays due while the
// facts do not change.
func TestWaitsAreExactAndDueStaysDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		v := w.verdict()
		at := func(d time.Duration) Verdict {
			later := w
			later.fleet.Now = start.Add(d)
			return later.verdict()
		}
		some := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "later"))
		switch {
		case v.Due:
			if after := at(some); !after.Due {
				t.Fatalf("due, and not %s later: %+v", some, after)
			}
		case v.Wait > 0 && w.fleet.CutOff:
			if after := at(v.Wait + some); after.Due || after.Wait > 0 {
				t.Fatalf("while all others are gone %+v becomes %+v", v, after)
			}
		case v.Wait > 0:
			if before := at(v.Wait - 1); before.Due || before.Wait != 1 || before.Message != v.Message {
				t.Fatalf("%+v becomes %+v", v, before)
			}
			if after := at(v.Wait + some); !after.Due {
				t.Fatalf("after %s it is not due: %+v", v.Wait, after)
			}
		default:
			if after := at(some); after != v {
				t.Fatalf("%+v becomes %+v by time alone", v, after)
			}
		}
	})
}
