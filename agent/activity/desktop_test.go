package activity

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func watching(limit time.Duration) *desktop {
	d := &desktop{}
	d.retarget(Target{URL: "http://192.0.2.1:80/idle", Limit: limit, Began: noon}, defaults)
	return d
}

var defaults = Options{}.withDefaults()

func TestADesktopIsFirstQueriedWhenItCouldBeIdleOrNearItsEnd(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		0: 5 * time.Minute, 30 * time.Minute: 5 * time.Minute, 5 * time.Minute: 4 * time.Minute,
	} {
		if got := watching(limit).due.Sub(noon); got != want {
			t.Errorf("with a limit of %s: queried after %s, want %s", limit, got, want)
		}
	}
}

func TestTheNextQueryIsAsLateAsPossible(t *testing.T) {
	const limit = 30 * time.Minute // its last five minutes are "soon"
	for idle, want := range map[time.Duration]time.Duration{
		0:                        5 * time.Minute,
		4 * time.Minute:          time.Minute,
		5*time.Minute - 1:        time.Second,
		5 * time.Minute:          time.Minute,
		24*time.Minute + 1:       time.Minute - 1,
		25*time.Minute - 1:       time.Second,
		25 * time.Minute:         time.Minute,
		29*time.Minute + 1:       time.Minute - 1,
		limit - time.Millisecond: time.Second,
		limit:                    time.Minute,
		10 * limit:               time.Minute,
	} {
		if got := nextProbe(idle, limit, defaults); got != want {
			t.Errorf("idle for %s: queried after %s, want %s", idle, got, want)
		}
	}
	if got := nextProbe(10*time.Hour, 0, defaults); got != time.Minute {
		t.Errorf("without a limit: queried after %s", got)
	}
}

func TestAnAnswerIsDeliveredWhenItChangesTheNextStep(t *testing.T) {
	d := watching(30 * time.Minute)
	at := noon.Add(time.Hour)
	for _, c := range []struct {
		idle    time.Duration
		means   observe.Idleness
		matters bool
	}{
		{0, observe.InUse, true},
		{4 * time.Minute, observe.InUse, false},
		{20 * time.Minute, observe.InUse, true},
		{20*time.Minute + 3*time.Second, observe.InUse, false},
		{26 * time.Minute, observe.IdleSoon, true},
		{26*time.Minute - 3*time.Second, observe.IdleSoon, false},
		{time.Minute, observe.InUse, true},
		{30 * time.Minute, observe.IdleOver, true},
		{31 * time.Minute, observe.IdleOver, true},
	} {
		if got := d.answered(c.idle, defaults, at); got != c.matters || d.result.Idle != c.means {
			t.Errorf("idle for %s: %+v, matters %t, want %d, %t", c.idle, d.result, got, c.means, c.matters)
		}
	}
}

func TestADesktopIsIdleOnceItWasNotUsedForAWhileAndUntilItIs(t *testing.T) {
	d := watching(0)
	for _, c := range []struct {
		at, idle time.Duration
		since    time.Duration // after noon; 0: in use
		matters  bool
	}{
		{5 * time.Minute, time.Minute, 0, true},
		{9 * time.Minute, 5 * time.Minute, 4 * time.Minute, true},
		{10 * time.Minute, 6*time.Minute - 2*time.Second, 4 * time.Minute, false},
		{20 * time.Minute, 16*time.Minute + 2*time.Second, 4 * time.Minute, false},
		{30 * time.Minute, 5 * time.Minute, 25 * time.Minute, true},
		{31 * time.Minute, 10 * time.Second, 0, true},
		{32 * time.Minute, 10 * time.Second, 0, false},
	} {
		matters := d.answered(c.idle, defaults, noon.Add(c.at))
		want := observe.Use{Known: true}
		if c.since > 0 {
			want.Since = noon.Add(c.since)
		}
		if d.result.Use != want || matters != c.matters || d.result.Idle != observe.IdleUnknown {
			t.Errorf("after %s, idle for %s: %+v, matters %t; want %+v, %t", c.at, c.idle, d.result, matters, want, c.matters)
		}
	}
	d.answered(10*time.Minute, defaults, noon.Add(time.Hour))
	for range silentAfter {
		d.failed(defaults, noon.Add(time.Hour))
	}
	if d.result != (Result{Silent: true, Use: observe.Use{Known: true}}) {
		t.Errorf("of one that reports no more: %+v", d.result)
	}
}

func TestIdleCountsFromTheRunsBeginning(t *testing.T) {
	d := watching(30 * time.Minute)
	d.answered(10*time.Hour, defaults, noon.Add(29*time.Minute))
	if d.result.Idle != observe.IdleSoon {
		t.Errorf("29 minutes into the run: %+v", d.result)
	}
	d.answered(10*time.Hour, defaults, noon.Add(30*time.Minute))
	if d.result.Idle != observe.IdleOver {
		t.Errorf("30 minutes into the run: %+v", d.result)
	}
}

func TestAFailedQueryNeverEndsASessionAndIsReportedOnce(t *testing.T) {
	d := watching(30 * time.Minute)
	now, reports := noon.Add(time.Hour), 0
	d.answered(29*time.Minute, defaults, now)
	var waits []time.Duration
	for i := range 100 {
		if d.failed(defaults, now) {
			reports++
		}
		if d.result.Idle == observe.IdleOver {
			t.Fatal("an unknown ended the session")
		}
		if want := i >= 2; d.result.Silent != want {
			t.Fatalf("after %d unknowns: %+v", i+1, d.result)
		}
		waits = append(waits, d.due.Sub(now))
		now = d.due
	}
	if reports != 1 {
		t.Errorf("reported %d times", reports)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if waits[i] != want*time.Second {
			t.Errorf("after %d unknowns it is queried after %s, want %s", i+1, waits[i], want*time.Second)
		}
	}
	if last := waits[99]; last != time.Minute {
		t.Errorf("after 100 unknowns it is queried after %s", last)
	}
	if !d.answered(0, defaults, now) || d.result.Silent {
		t.Errorf("it reports again: %+v", d.result)
	}
}

func TestAnswersOfAPreviousDesktopAreForgotten(t *testing.T) {
	for name, change := range map[string]func(*Target){
		"another Pod":        func(t *Target) { t.URL = "http://192.0.2.2:80/idle" },
		"another run":        func(t *Target) { t.Began = noon.Add(time.Hour) },
		"another limit":      func(t *Target) { t.Limit = time.Hour },
		"another assignment": func(t *Target) { t.UID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			d := watching(30 * time.Minute)
			d.answered(time.Hour, defaults, noon.Add(time.Hour))
			same := d.target
			if d.retarget(same, defaults) || d.result.Idle != observe.IdleOver {
				t.Errorf("the same desktop: %+v", d.result)
			}
			change(&same)
			if !d.retarget(same, defaults) || d.result != (Result{}) {
				t.Errorf("still %+v", d.result)
			}
		})
	}
}

// Whatever a user does, the desktop ends when it was idle for the limit: no sooner, and no
// later than the next probe.
func TestADesktopEndsWhenAndOnlyWhenItWasIdleForItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := time.Duration(rapid.IntRange(5, 24*3600).Draw(t, "limit")) * time.Second
		d, now, used, queries := watching(limit), noon, noon, 0
		for d.result.Idle != observe.IdleOver {
			away := time.Duration(rapid.Int64Range(0, int64(3*limit)/2).Draw(t, "away"))
			for back := used.Add(away); d.result.Idle != observe.IdleOver; {
				if d.due.After(back) {
					used = back
					break
				}
				if d.due.Before(now.Add(time.Second)) {
					t.Fatalf("queried again after %s", d.due.Sub(now))
				}
				now = d.due
				queries++
				d.answered(now.Sub(used), defaults, now)
			}
		}
		if idle := now.Sub(used); idle < limit || idle > limit+2*time.Second {
			t.Fatalf("ended after %s without use, the limit is %s", idle, limit)
		}
		if most := 10 + 8*int(now.Sub(noon)/limit) + int(now.Sub(noon)/time.Minute); queries > most {
			t.Fatalf("%d queries in %s with a limit of %s", queries, now.Sub(noon), limit)
		}
	})
}

func TestAThousandDesktopsInUseCostLessThanFourQueriesASecond(t *testing.T) {
	const hour = time.Hour
	queries := 0
	d := watching(30 * time.Minute)
	for d.due.Before(noon.Add(10 * hour)) {
		queries++
		d.answered(time.Second, defaults, d.due)
	}
	if perSecond := float64(1000*queries) / (10 * hour).Seconds(); perSecond >= 4 {
		t.Errorf("%.2f queries a second", perSecond)
	}
}
