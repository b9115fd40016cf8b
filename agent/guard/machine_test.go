package guard

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var limits = Limits{Start: 5 * time.Minute, Closed: 2 * time.Minute}

const second = time.Second

func TestADesktopWaitsForItsLeaseAndEndsWithIt(t *testing.T) {
	m := NewMachine(limits)
	if m.MayRun(0) == nil || m.Alive(0) == nil {
		t.Error("it may run before any answer")
	}
	m.Granted(0, 100*second, 40*second) // The answer was long in coming.
	if m.MayRun(99*second) != nil || m.Left(99*second) != second {
		t.Errorf("%s are left after 99 of 100 seconds", m.Left(99*second))
	}
	m.Granted(50*second, 20*second, 60*second)
	if m.Left(99*second) != second {
		t.Error("a shorter answer ended what an earlier one granted")
	}
	if m.MayRun(100*second) == nil {
		t.Error("it outlives its lease")
	}
	m.Granted(101*second, 100*second, 101*second)
	if m.MayRun(102*second) == nil || m.Left(102*second) != 0 {
		t.Error("what was over has begun again")
	}
}

func TestAnAnswerThatArrivesAfterItsLeaseDoesNotCount(t *testing.T) {
	m := NewMachine(limits)
	m.Granted(0, 10*second, 10*second)
	m.Granted(50*second, 100*second, 40*second) // Of the future.
	m.Granted(30*second, 0, 40*second)
	m.Granted(30*second, -second, 40*second)
	if m.MayRun(40*second) == nil {
		t.Fatal("it counts")
	}
	if m.Granted(40*second, 10*second, 41*second); m.MayRun(42*second) != nil {
		t.Error("and it was held against the first that does")
	}
}

func TestADesktopThatDoesNotAnswer(t *testing.T) {
	long := 100 * time.Hour
	for name, tc := range map[string]struct {
		story func(*Machine)
		at    time.Duration
		alive bool
	}{
		"has its time to start, from when it runs": {func(m *Machine) { m.Runs(time.Hour); m.Runs(2 * time.Hour) }, time.Hour + 5*time.Minute - 1, true},
		"and no more":                 {func(m *Machine) { m.Runs(time.Hour); m.Runs(2 * time.Hour) }, time.Hour + 5*time.Minute, false},
		"is not expected to before":   {func(*Machine) {}, time.Hour, true},
		"may be busy once it did":     {func(m *Machine) { m.Runs(0); m.Answers(time.Minute) }, 3*time.Minute - 1, true},
		"but not for long":            {func(m *Machine) { m.Runs(0); m.Answers(time.Minute) }, 3 * time.Minute, false},
		"is forgiven when it answers": {func(m *Machine) { m.Runs(0); m.Answers(time.Minute); m.Answers(4 * time.Minute) }, 5 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewMachine(limits)
			m.Granted(0, long, 0)
			tc.story(m)
			if err := m.Alive(tc.at); (err == nil) != tc.alive {
				t.Errorf("alive: %v", err)
			}
			if m.MayRun(tc.at) != nil {
				t.Error("that it does not answer ends its guard")
			}
		})
	}
}

// No desktop runs longer than was granted from the time of a request, and a lease that was
// over stays over.
func TestNoDesktopOutlivesItsLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMachine(limits)
		var now, end time.Duration
		held, over := false, false
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(100*second)).Draw(t, "wait"))
			over = over || held && now >= end
			if rapid.Bool().Draw(t, "granted") {
				requested := now - time.Duration(rapid.Int64Range(-int64(second), int64(60*second)).Draw(t, "requested"))
				left := time.Duration(rapid.Int64Range(-int64(second), int64(180*second)).Draw(t, "left"))
				m.Granted(requested, left, now)
				if !over && requested <= now && requested+left > now && left > 0 {
					held, end = true, max(end, requested+left)
				}
			}
			if may := m.MayRun(now) == nil; may != (held && !over) {
				t.Fatalf("may run: %t; held %t, over %t, ends in %s", may, held, over, end-now)
			}
		}
	})
}

func TestEachAssignmentHasItsShareOfAnswers(t *testing.T) {
	p, began := NewEndpoint(EndpointOptions{TimeFactor: 1}), time.Now()
	answered := 0
	for range 100 {
		if p.allow("a", began) {
			answered++
		}
	}
	if answered < burst || answered > burst+2 {
		t.Errorf("%d answers at once, want about %d", answered, burst)
	}
	if !p.allow("b", began) {
		t.Error("another has to wait for it")
	}
	if p.allow("a", began.Add(refillInterval/2)) || !p.allow("a", began.Add(2*refillInterval)) {
		t.Error("it does not get its share as time passes")
	}
}
