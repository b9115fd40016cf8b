package observe_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var runStart = time.Date(2030, 1, 2, 12, 0, 0, 300e6, time.UTC)

// timed is an assignment with time limits.
func timed(timeout, used api.Duration) *api.SessionAssignment {
	return &api.SessionAssignment{Spec: api.SessionAssignmentSpec{Timeout: timeout, TimeUsed: used, RunState: api.ModeRunning}}
}

// after is the instant so long after the first, with a correct wall clock.
func after(d time.Duration) observe.Instant {
	return observe.Instant{Wall: runStart.Add(d), Process: d}
}

func TestTimeIsThatOfAllRuns(t *testing.T) {
	a := timed("8h", "1h")
	u := observe.Restore(a, after(0))
	check := func(what string, at time.Duration, want time.Duration) {
		t.Helper()
		if got := u.Elapsed(a, after(at)); got != want {
			t.Errorf("%s: %s have elapsed, want %s", what, got, want)
		}
	}
	check("before the first run", time.Hour, time.Hour)
	u = u.Begin(a, 0, after(time.Minute))
	check("in the first run", 31*time.Minute, 90*time.Minute)
	u = u.Begin(a, 0, after(20*time.Minute))
	check("ready again in the same run", 31*time.Minute, 90*time.Minute)
	u = u.End(a, after(time.Hour+time.Minute+900*time.Millisecond))
	check("between two runs", 24*time.Hour, 2*time.Hour)
	u = u.End(a, after(5*time.Hour))
	check("ended twice", 24*time.Hour, 2*time.Hour)
	u = u.Begin(a, 0, after(24*time.Hour))
	check("in the second run", 25*time.Hour, 3*time.Hour)
}

func TestTheHubsAccountCountsBetweenRunsOnly(t *testing.T) {
	a := timed("8h", "")
	u := observe.Restore(a, after(0)).Begin(a, 0, after(0))
	a.Spec.TimeUsed = "2h"
	if got := u.Elapsed(a, after(time.Hour)); got != time.Hour {
		t.Errorf("in a run that the hub counts already: %s, want 1h", got)
	}
	u = u.End(a, after(time.Hour))
	if got := u.Elapsed(a, after(time.Hour)); got != 2*time.Hour {
		t.Errorf("after it: %s, want the hub's 2h", got)
	}
}

func TestLimits(t *testing.T) {
	cases := map[string]struct {
		timeout, used api.Duration
		run           time.Duration
		expired       bool
	}{
		"not yet":                         {"1h", "", time.Hour - 1, false},
		"just now":                        {"1h", "", time.Hour, true},
		"time used elsewhere counts":      {"1h", "30m", 30 * time.Minute, true},
		"used up before":                  {"1h", "1h", 0, true},
		"none":                            {"", "", 1000 * time.Hour, false},
		"zero is none":                    {"0s", "", 1000 * time.Hour, false},
		"malformed is none":               {"8 hours", "", 1000 * time.Hour, false},
		"negative is none":                {"-1h", "", 1000 * time.Hour, false},
		"malformed time used counts none": {"1h", "much", time.Hour - 1, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := timed(c.timeout, c.used)
			u := observe.Restore(a, after(0)).Begin(a, 0, after(0))
			if got := u.Expired(a, after(c.run)); got != c.expired {
				t.Errorf("expired is %t, want %t", got, c.expired)
			}
		})
	}
}

func TestWhatExpiredStaysSoUntilItsTimeoutIsRaised(t *testing.T) {
	for _, timeout := range []api.Duration{"90m", "1500ms", "1h0m0.5s"} {
		a := timed(timeout, "")
		limit, _ := timeout.Value()
		u := observe.Restore(a, after(0)).Begin(a, 0, after(0)).End(a, after(limit))
		if !u.Expired(a, after(limit)) {
			t.Errorf("%s: it would run again", timeout)
		}
		u.Store(&a.Status, after(limit))
		next := observe.Restore(a, observe.Instant{Wall: runStart.Add(limit)})
		if !next.Expired(a, observe.Instant{Wall: runStart.Add(limit)}) {
			t.Errorf("%s: the next process would run it again, stored is %q", timeout, a.Status.TimeUsed)
		}
		a.Spec.Timeout = api.DurationOf(limit + time.Hour)
		if left, _ := next.Left(a, after(limit)); left != time.Hour {
			t.Errorf("%s: extended by an hour, %s are left", timeout, left)
		}
	}
}

func TestAnUnobservedExpiryCountsInFull(t *testing.T) {
	a := timed("1h", "")
	u := observe.Restore(a, after(0)).Begin(a, 0, after(0)).End(a, after(3*time.Hour))
	if got := u.Elapsed(a, after(3*time.Hour)); got != 3*time.Hour {
		t.Errorf("%s are used, want the 3h that it ran", got)
	}
}

func TestWhatIsStoredStaysAsItIs(t *testing.T) {
	a := timed("", "")
	var s api.SessionAssignmentStatus
	u := observe.Restore(a, after(0))
	u.Store(&s, after(0))
	if s.RunningSince != nil || s.TimeUsed != "" {
		t.Errorf("before the first run: %v, %q", s.RunningSince, s.TimeUsed)
	}
	u = u.Begin(a, 0, after(time.Minute))
	u.Store(&s, after(time.Minute))
	// Never earlier than it was, and to the second.
	if want := runStart.Add(time.Minute + 700*time.Millisecond); !s.RunningSince.Time.Equal(want) || s.TimeUsed != "0s" {
		t.Errorf("in a run: since %s, used %q, want %s and 0s", s.RunningSince, s.TimeUsed, want)
	}
	first := s.DeepCopy()
	for d := time.Minute; d < time.Hour; d += 77777 * time.Microsecond {
		u.Store(&s, after(d))
		if !s.RunningSince.Time.Equal(first.RunningSince.Time) || s.TimeUsed != first.TimeUsed {
			t.Fatalf("%s later: since %s, want %s", d, s.RunningSince, first.RunningSince)
		}
	}
	u.End(a, after(31*time.Minute+500*time.Millisecond)).Store(&s, after(31*time.Minute))
	if s.RunningSince != nil || s.TimeUsed != "30m0s" {
		t.Errorf("after the run: since %v, used %q", s.RunningSince, s.TimeUsed)
	}
}

func TestTheSameTimeInAnotherNotationIsNotWritten(t *testing.T) {
	a := timed("8h", "")
	a.Status.TimeUsed = "90m"
	s := *a.Status.DeepCopy()
	observe.Restore(a, after(0)).Store(&s, after(0))
	if s.TimeUsed != "90m" {
		t.Errorf("90m became %s", s.TimeUsed)
	}
}

func TestAClockThatIsSetChangesNoTimeAndIsStored(t *testing.T) {
	for _, jump := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		a := timed("8h", "")
		u := observe.Restore(a, after(0)).Begin(a, 0, after(0))
		u.Store(&a.Status, after(0))
		at := observe.Instant{Wall: runStart.Add(time.Hour + jump), Process: time.Hour}
		if got := u.Elapsed(a, at); got != time.Hour {
			t.Errorf("set by %s: %s have elapsed, want 1h", jump, got)
		}
		u.Store(&a.Status, at)
		later := observe.Instant{Wall: at.Wall.Add(time.Minute), Process: 0}
		if got := observe.Restore(a, later).Elapsed(a, later); got > time.Hour+time.Minute || got <= time.Hour+time.Minute-time.Second {
			t.Errorf("set by %s, the next process reckons with %s, want 1h1m", jump, got)
		}
	}
}

func TestABeginningInTheFutureIsNow(t *testing.T) {
	a := timed("8h", "")
	a.Status.RunningSince = &metav1.Time{Time: runStart.Add(time.Hour)}
	u := observe.Restore(a, after(0))
	if got := u.Elapsed(a, after(time.Minute)); got != time.Minute {
		t.Errorf("%s have elapsed after a minute", got)
	}
}

func TestAnUnobservedStartCountsFromItsObservation(t *testing.T) {
	a := timed("8h", "")
	u := observe.Restore(a, after(0)).Begin(a, time.Hour, after(0))
	if got := u.Run(after(time.Minute)); got != 61*time.Minute {
		t.Errorf("it has run for %s", got)
	}
	if u = observe.Restore(a, after(0)).Begin(a, -time.Hour, after(0)); u.Run(after(0)) != 0 {
		t.Errorf("begun in the future, it has run for %s", u.Run(after(0)))
	}
}

// world is a member whose agent may stop and whose clock may be set, and the
// truth of how long its desktop has run.
type world struct {
	a       *api.SessionAssignment
	real    time.Duration // that has passed
	set     time.Duration // by which the wall's clock is off
	process time.Duration // when the process began
	usage   observe.Usage

	stored    bool          // the last pass was, and nothing was set since
	offset    time.Duration // how far the clock was off when something was last stored
	runs      bool
	truth     time.Duration
	roundings int
}

func (w *world) at() observe.Instant {
	return observe.Instant{Wall: runStart.Add(w.real + w.set), Process: w.real - w.process}
}

func (w *world) wait(d time.Duration) {
	w.real += d
	if w.runs {
		w.truth += d
	}
}

// pass with the desktop ready while it must run; its write may fail.
func (w *world) pass(written bool) {
	run := w.a.Spec.RunState == api.ModeRunning
	if run != w.runs {
		w.roundings++
	}
	if w.runs = run; run {
		w.usage = w.usage.Begin(w.a, 0, w.at())
	} else {
		w.usage = w.usage.End(w.a, w.at())
	}
	if written {
		w.usage.Store(&w.a.Status, w.at())
		w.offset = w.set
	}
	w.stored = written
}

func (w *world) restart() {
	w.process = w.real
	w.usage = observe.Restore(w.a, w.at())
	w.roundings++
}

func (w *world) check(t *rapid.T) {
	got := w.usage.Elapsed(w.a, w.at())
	if got > w.truth || got < w.truth-time.Duration(w.roundings)*time.Second {
		t.Fatalf("%s have elapsed, truly %s with %d times rounded", got, w.truth, w.roundings)
	}
}

func TestTimeIsNeverMoreThanRealAndHardlyLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{a: timed("", "")}
		w.pass(true)
		// Up to a day, to the nanosecond.
		while := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "while"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"":            w.check,
			"time passes": func(t *rapid.T) { w.wait(while.Draw(t, "wait")) },
			"a pass":      func(*rapid.T) { w.pass(true) },
			"a pass whose write fails": func(*rapid.T) {
				w.pass(false)
			},
			"suspended": func(*rapid.T) { w.a.Spec.RunState = api.ModeSuspended; w.pass(true) },
			"resumed":   func(*rapid.T) { w.a.Spec.RunState = api.ModeRunning; w.pass(true) },
			"the clock is set": func(t *rapid.T) {
				way := time.Duration(rapid.SampledFrom([]int{-1, 1}).Draw(t, "way"))
				w.set += way * (while.Draw(t, "set") + time.Minute)
				// Set back and forth, its error may be indistinguishable from rounding.
				for (w.set - w.offset).Abs() < time.Minute {
					w.set += way * time.Minute
				}
				w.roundings++
				w.stored = false
			},
			"the agent is away": func(t *rapid.T) {
				if !w.stored {
					t.Skip("what is not stored is lost to the next")
				}
				w.wait(while.Draw(t, "away"))
				w.restart()
			},
		})
	})
}
