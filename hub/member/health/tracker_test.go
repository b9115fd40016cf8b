package health

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

func (v Verdict) String() string {
	return strings.TrimSuffix(string(v.State)+"/"+string(v.Cause), "/")
}

func TestAssess(t *testing.T) {
	timings := DefaultTimings(1)
	began := time.Unix(1_700_000_000, 0)
	connected := Tracker{ever: true, last: began, received: true}
	for _, c := range []struct {
		name    string
		signs   Tracker
		silence time.Duration
		want    string
		recheck time.Duration
	}{
		{"never connected", NewTracker(false, began), time.Hour, "NeverConnected", 0},
		{"just renewed", connected, 0, "Ready", 15 * time.Second},
		{"almost suspect", connected, 15*time.Second - 1, "Ready", 1},
		{"suspect", connected, 15 * time.Second, "Suspect/Silence", 25 * time.Second},
		{"almost unreachable", connected, 40*time.Second - 1, "Suspect/Silence", 1},
		{"unreachable", connected, 40 * time.Second, "Unreachable/Silence", 0},
		{"a new leader has not received a heartbeat yet", NewTracker(true, began), 20 * time.Second, "Unknown", 20 * time.Second},
		{"a new leader has waited long enough", NewTracker(true, began), 40 * time.Second, "Unreachable/Silence", 0},
		{"admitted again and silent", Tracker{ever: true}, 0, "Unreachable/Silence", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.signs.Assess(timings, Overrides{}, began.Add(c.silence))
			if got.String() != c.want || got.Recheck != c.recheck {
				t.Errorf("got %s, again in %s; want %s, %s", got, got.Recheck, c.want, c.recheck)
			}
		})
	}
}

// act is an event of a member.
type act string

const (
	opens  act = "opens"
	renews act = "renews"
	stalls act = "stalls"
	checks act = "is checked"
)

func (s *Tracker) act(a act, now time.Time) {
	t := DefaultTimings(1)
	switch a {
	case opens:
		s.Connected(t, now)
	case renews:
		s.Renewed(t, now)
	case stalls:
		s.Stalled(t, now)
	case checks:
		s.Update(t, now)
	}
}

// beat returns renewals every five seconds from one second to another, both included.
func beat(from, to int) []step {
	var out []step
	for at := from; at <= to; at += 5 {
		out = append(out, step{at: at, act: renews})
	}
	return out
}

// step is an event at a second, and the member's health after it.
type step struct {
	at   int
	act  act
	want string
}

func steps(parts ...any) []step {
	var out []step
	for _, p := range parts {
		switch p := p.(type) {
		case step:
			out = append(out, p)
		case []step:
			out = append(out, p...)
		}
	}
	return out
}

// lost returns one loss of Ready at a second and the recovery from it: 65 s.
func lost(at int) []step {
	return steps(step{at, renews, "Ready"}, step{at + 15, checks, "Suspect/Silence"}, beat(at+20, at+50), beat(at+55, at+60))
}

func TestHealthOverSequencesOfEvents(t *testing.T) {
	for name, story := range map[string][]step{
		"the first connection makes it Ready at once": {{0, opens, "Ready"}, {14, checks, "Ready"}},
		"it sends no heartbeats, and must be stable to be Ready again": steps(
			step{0, opens, "Ready"}, step{15, checks, "Suspect/Silence"}, step{20, renews, "Suspect/Recovering"},
			beat(25, 45), step{49, checks, "Suspect/Recovering"}, step{50, checks, "Ready"}),
		"it was not checked while it was silent": steps(
			step{0, opens, "Ready"}, step{16, renews, "Suspect/Recovering"}, beat(20, 45), step{46, checks, "Ready"}),
		"it reconnects from Unreachable": steps(
			step{0, opens, "Ready"}, step{40, checks, "Unreachable/Silence"}, step{100, opens, "Suspect/Recovering"},
			beat(105, 125), step{130, renews, "Ready"}),
		"connections alone are not renewals": {
			{0, opens, "Ready"}, {20, opens, ""}, {30, opens, ""}, {40, opens, ""}, {50, renews, ""},
			{55, renews, "Suspect/Recovering"}, {60, renews, "Ready"}},
		"a silence while it recovers begins it again": steps(
			step{0, opens, "Ready"}, beat(20, 30), step{45, checks, "Suspect/Silence"}, step{50, renews, "Suspect/Recovering"},
			beat(55, 75), step{79, checks, "Suspect/Recovering"}, step{80, renews, "Ready"}),
		"it was Ready again before it fell silent again": steps(
			step{0, opens, "Ready"}, beat(20, 45), step{60, renews, "Suspect/Recovering"}, step{61, checks, "Suspect/Recovering"}),
		"a stream that breaks and is opened again is no failure": {
			{0, opens, "Ready"}, {14, opens, "Ready"}, {28, opens, "Ready"}, {42, renews, "Ready"}},
		"it does not keep up, and its renewals do not make up for it": steps(
			step{0, opens, "Ready"}, step{1, stalls, "Suspect/Stalled"}, beat(5, 60), step{61, checks, "Suspect/Stalled"},
			step{62, opens, "Suspect/Recovering"}, beat(65, 90), step{91, checks, "Suspect/Recovering"}, step{92, checks, "Ready"}),
		"three losses within ten minutes quarantine it for ten": steps(
			lost(0), step{65, checks, "Ready"}, lost(65), step{130, checks, "Ready"},
			step{130, renews, "Ready"}, step{145, checks, "Suspect/Silence"}, step{150, renews, "Suspect/Quarantined"},
			beat(155, 740), step{744, checks, "Suspect/Quarantined"}, step{745, renews, "Ready"}),
		"quarantine does not hide that it is silent": steps(
			lost(0), lost(65), step{130, renews, ""}, step{150, renews, "Suspect/Quarantined"}, step{165, checks, "Suspect/Silence"}, step{190, checks, "Unreachable/Silence"}),
		"after quarantine it must be stable still": steps(
			lost(0), lost(65), step{130, renews, ""}, beat(150, 700), step{735, renews, "Suspect/Quarantined"}, step{746, checks, "Suspect/Recovering"}),
		"two losses do not": steps(lost(0), lost(65), beat(130, 800), step{801, checks, "Ready"}),
		"three losses in longer than that do not": steps(
			lost(0), beat(65, 300), lost(305), beat(370, 600), step{601, renews, "Ready"}, step{616, checks, ""}, beat(620, 650), step{651, checks, "Ready"}),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Unix(1_700_000_000, 0)
			s := NewTracker(false, began)
			for _, step := range story {
				now := began.Add(time.Duration(step.at) * time.Second)
				s.act(step.act, now)
				if got := s.Assess(DefaultTimings(1), Overrides{}, now); step.want != "" && got.String() != step.want {
					t.Fatalf("at %d s, when it %s: got %s, want %s", step.at, step.act, got, step.want)
				}
			}
		})
	}
}

func TestOverridesOfTheHeartbeats(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	alive := Tracker{ever: true, last: now, received: true}
	silent := NewTracker(true, now.Add(-time.Hour))
	for want, o := range map[string]Overrides{
		"Ready": {}, "Suspect/Uncertain": {Uncertain: true}, "Unreachable/Revoked": {Revoked: true, Fenced: true, Uncertain: true},
		"Unreachable/Fenced": {Fenced: true, Uncertain: true},
	} {
		if got := alive.Assess(DefaultTimings(1), o, now).String(); got != want {
			t.Errorf("%+v: got %s, want %s", o, got, want)
		}
	}
	if got := silent.Assess(DefaultTimings(1), Overrides{Uncertain: true}, now).String(); got != "Unreachable/Silence" {
		t.Errorf("one that is silent and was uncertain is %s", got)
	}
}

func TestPauseDetector(t *testing.T) {
	timings, now := DefaultTimings(1), time.Unix(1_700_000_000, 0)
	var p PauseDetector
	check := func(after time.Duration, want bool) {
		t.Helper()
		before := now
		now = now.Add(after)
		if since, paused := p.Check(timings, now); paused != want || paused && !since.Equal(before) {
			t.Errorf("after %s: %v since %s", after, paused, since)
		}
	}
	check(time.Hour, false) // not started
	p.Start(now)
	check(timings.Renew, false)
	check(3*timings.Renew/2, false)
	check(3*timings.Renew/2+1, true)
	check(timings.Renew, false)
}

// eager is a model of Tracker that is computed second by second.
type eager struct {
	ever, renewedHere, troubled, stalled bool
	last, since, renewals, losses        int
	until                                int
	flips                                []int
}

func (e *eager) tick(now int) {
	if e.troubled && e.since >= 0 && e.renewals >= 3 && now-e.since >= 30 {
		e.troubled = false
	}
	if e.renewedHere && now-e.last >= 15 {
		e.loseReady(now)
	}
}

func (e *eager) loseReady(now int) {
	if !e.troubled && now >= e.until {
		e.losses++
		e.flips = append(e.flips, now)
		if n := len(e.flips); n >= 3 && now-e.flips[n-3] < 600 {
			e.until = now + 600
		}
	}
	e.troubled, e.since, e.renewals = true, -1, 0
}

func (e *eager) act(a act, now int) {
	switch a {
	case stalls:
		e.loseReady(now)
		e.stalled = true
		return
	case checks:
		return
	case opens:
		e.stalled = false
	}
	if e.troubled && !e.stalled {
		if e.since < 0 {
			e.since = now
		}
		if a == renews {
			e.renewals++
		}
	}
	e.last, e.renewedHere, e.ever = now, true, true
	e.tick(now)
}

func (e *eager) String() string {
	return fmt.Sprintf("troubled %t, stalled %t, losses %d, quarantined until %d", e.troubled, e.stalled, e.losses, e.until)
}

func (e *eager) health(now int) string {
	switch silence := now - e.last; {
	case !e.ever:
		return "NeverConnected"
	case silence >= 40:
		return "Unreachable/Silence"
	case !e.renewedHere:
		return "Unknown"
	case silence >= 15:
		return "Suspect/Silence"
	case e.stalled:
		return "Suspect/Stalled"
	case now < e.until:
		return "Suspect/Quarantined"
	case e.troubled:
		return "Suspect/Recovering"
	}
	return "Ready"
}

// A check has the same result as checks in every second, whatever the wall clock shows
// meanwhile, and the result does not change before the Recheck time of the check before.
func TestHealthDoesNotDependOnWhenItIsCheckedNorOnTheWallClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timings, began := DefaultTimings(1), time.Now()
		ever := rapid.Bool().Draw(t, "ever")
		lazy, model := NewTracker(ever, began), &eager{ever: ever, since: -1}
		now, quietUntil, was := 0, 0, ""
		for range rapid.IntRange(1, 150).Draw(t, "acts") {
			wait := rapid.SampledFrom([]int{1, 5, 5, 5, 5, 14, 15, 16, 40, 300}).Draw(t, "wait")
			for range wait {
				now++
				model.tick(now)
				if got := model.health(now); now < quietUntil && got != was {
					t.Fatalf("it is %s at %d s, and was not to change from %s before %d s", got, now, was, quietUntil)
				}
			}
			a := rapid.SampledFrom([]act{opens, renews, renews, renews, renews, checks, stalls}).Draw(t, "act")
			if a == stalls && !model.renewedHere {
				a = opens // only a connection can stall
			}
			at := jumped(began.Add(time.Duration(now)*time.Second), rapid.IntRange(-86400, 86400).Draw(t, "wall clock"))
			lazy.act(a, at)
			model.act(a, now)
			got := lazy.Assess(timings, Overrides{}, at)
			if got.String() != model.health(now) || lazy.losses != model.losses {
				t.Fatalf("at %d s, when it %s: got %s (%+v), want %s (%s)", now, a, got, lazy, model.health(now), model)
			}
			was, quietUntil = got.String(), 1<<30
			if got.Recheck > 0 {
				quietUntil = now + int(got.Recheck/time.Second)
			}
		}
	})
}

// jumped returns the same instant of the monotonic clock, with a wall clock that shows so
// many seconds more: what time.Now returns after the clock was set. A time.Time with a
// monotonic reading has the seconds of its wall clock above its 30 bits of nanoseconds.
func jumped(t time.Time, seconds int) time.Time {
	fields := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&t))
	fields.wall += uint64(int64(seconds)) << 30
	return t
}

func TestJumpedMovesTheWallClockAlone(t *testing.T) {
	now := time.Now()
	then := jumped(now, -86400)
	if then.Sub(now) != 0 || then.Unix() != now.Unix()-86400 {
		t.Errorf("%s is %s after %s", then, then.Sub(now), now)
	}
}

func TestTimingsThatDoNotFitTogether(t *testing.T) {
	for _, factor := range []float64{0.05, 1, 10} {
		if err := DefaultTimings(factor).Validate(); err != nil {
			t.Errorf("times %g: %v", factor, err)
		}
	}
	for want, spoil := range map[string]func(*Timings){
		"renew is 0s":           func(t *Timings) { t.Renew = 0 },
		"stable is -1ns":        func(t *Timings) { t.Stable = -1 },
		"quarantine is 0s":      func(t *Timings) { t.Quarantine = 0 },
		"flip window is 0s":     func(t *Timings) { t.FlipWindow = 0 },
		"suspect (9s) must":     func(t *Timings) { t.Suspect = 9 * time.Second },
		"unreachable (15s)":     func(t *Timings) { t.Unreachable = t.Suspect },
		"the lease (40s) must":  func(t *Timings) { t.Failover.Lease = t.Unreachable },
		"heartbeat is 0s, and ": func(t *Timings) { *t = DefaultTimings(1); t.Heartbeat = 0 },
	} {
		timings := DefaultTimings(1)
		spoil(&timings)
		if err := timings.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
