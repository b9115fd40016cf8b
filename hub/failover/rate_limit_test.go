package failover

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// waitingSessions are sessions that all request a failover at once, and again when they are due.
type waitingSessions struct {
	limit *RateLimit
	mass  bool
	// target returns the member in which a session would be placed.
	target func(i int) types.UID
	tries  int
	// passed has the times at which the sessions were admitted.
	passed map[int]time.Time
}

func newWaitingSessions(mass bool, targets int) *waitingSessions {
	return &waitingSessions{limit: NewRateLimit(), mass: mass, passed: map[int]time.Time{}, target: func(i int) types.UID {
		return types.UID(fmt.Sprint("t", i%targets))
	}}
}

func (c *waitingSessions) try(i int, now time.Time) time.Duration {
	c.tries++
	session := types.UID(fmt.Sprint("s", i))
	if wait := c.limit.FleetWait(session, c.mass, now); wait > 0 {
		return wait
	}
	if wait := c.limit.TargetWait(session, c.target(i), c.mass, now); wait > 0 {
		return wait
	}
	c.limit.Consume(session, c.target(i))
	c.passed[i] = now
	return 0
}

// run fails over n sessions, and returns how long it took.
func (c *waitingSessions) run(n int) time.Duration {
	next := map[int]time.Time{}
	for i := range n {
		next[i] = start
	}
	now := start
	for len(next) > 0 {
		soonest := start.Add(24 * time.Hour)
		for i := range n {
			at, waits := next[i]
			if waits && !at.After(now) {
				if wait := c.try(i, now); wait > 0 {
					next[i] = now.Add(wait)
				} else {
					delete(next, i)
				}
			}
			if at, waits := next[i]; waits && at.Before(soonest) {
				soonest = at
			}
		}
		if len(next) > 0 {
			now = soonest
		}
	}
	return now.Sub(start)
}

func TestRateLimitAdmitsItsNumberOfFailovers(t *testing.T) {
	for name, test := range map[string]struct {
		n, targets int
		mass       bool
		least      time.Duration
		most       time.Duration
	}{
		"fewer than a second's": {n: 10, targets: 1},
		"500 over two targets":  {n: 500, targets: 2, least: 23 * time.Second, most: 27 * time.Second},
		"500 over many targets": {n: 500, targets: 10, least: 23 * time.Second, most: 27 * time.Second},
		"500 to one target":     {n: 500, targets: 1, least: 48 * time.Second, most: 52 * time.Second},
		"most members gone":     {n: 50, targets: 5, mass: true, least: 23 * time.Second, most: 28 * time.Second},
		"and one target":        {n: 50, targets: 1, mass: true, least: 48 * time.Second, most: 55 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := newWaitingSessions(test.mass, test.targets)
			if took := c.run(test.n); took < test.least || took > test.most {
				t.Errorf("it took %s", took)
			}
			if c.tries > 8*test.n {
				t.Errorf("%d sessions tried %d times", test.n, c.tries)
			}
			if waiting := c.limit.WaitingSessions(start.Add(time.Hour)); waiting != 0 {
				t.Errorf("%d wait", waiting)
			}
		})
	}
}

func TestRateLimitForgetsSessionsThatDoNotRetry(t *testing.T) {
	c := newWaitingSessions(false, 1)
	for i := range 30 {
		c.try(i, start)
	}
	if n := c.limit.WaitingSessions(start); n != 20 {
		t.Errorf("%d of 20 wait", n)
	}
	c.limit.Remove("s29")
	if n := c.limit.WaitingSessions(start); n != 19 {
		t.Errorf("%d of 19 wait", n)
	}
	if n := c.limit.WaitingSessions(start.Add(time.Minute)); n != 0 {
		t.Errorf("%d wait", n)
	}
}

func TestMassFailure(t *testing.T) {
	for _, test := range []struct {
		gone, of int
		mass     bool
	}{{0, 0, false}, {0, 3, false}, {1, 2, false}, {1, 3, false}, {11, 20, true}, {54, 100, false}, {2, 3, true}, {1, 1, true}} {
		if got := IsMassFailure(test.gone, test.of); got != test.mass {
			t.Errorf("%d of %d: %v", test.gone, test.of, got)
		}
	}
}

// attempt is a time at which sessions tried, or at which the rate limit admitted one.
type attempt struct {
	at     time.Time
	target types.UID
	mass   bool
}

// In any window the limit admits no more sessions than its rate permits plus those of one
// second, whichever sessions try at whatever time, even if the clock is set back.
func TestRateLimitHoldsOverAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newWaitingSessions(false, rapid.IntRange(1, 4).Draw(t, "targets"))
		now := start
		var all []attempt
		for i := range rapid.IntRange(1, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int64{-50, 0, 0, 1, 20, 100, 700, 5000}).Draw(t, "ms")) * time.Millisecond)
			c.mass = c.mass != (rapid.IntRange(0, 9).Draw(t, "mass") == 0)
			all = append(all, attempt{now, "", c.mass})
			for j := range rapid.IntRange(1, 30).Draw(t, "tries") {
				if c.try(i*100+j, now) == 0 {
					all = append(all, attempt{now, c.target(i*100 + j), c.mass})
				}
			}
		}
		for i := range all {
			checkWindows(t, all[i:])
		}
	})
}

// checkWindows checks every window that begins with the first of the attempts.
func checkWindows(t *rapid.T, passes []attempt) {
	fleet, target, mass := 0, 0, true
	end := passes[0].at
	for _, p := range passes {
		if p.at.After(end) {
			end = p.at
		}
		mass = mass && p.mass
		if p.target != "" {
			fleet++
		}
		if p.target == "t0" {
			target++
		}
		w := end.Sub(passes[0].at).Seconds()
		within(t, "the fleet", fleet, fleetRate*w+fleetRate)
		within(t, "a target", target, targetRate*w+targetRate)
		if mass {
			within(t, "the fleet while most are gone", fleet, 2*w+2)
			within(t, "a target while most are gone", target, w+1)
		}
	}
}

func within(t *rapid.T, what string, n int, most float64) {
	if float64(n) > most+1e-6 {
		t.Fatalf("%s: %d passed, and at most %.2f may", what, n, most)
	}
}

func TestAnEarlyRetryKeepsItsPlaceInTheQueue(t *testing.T) {
	c := newWaitingSessions(false, 1)
	for i := range 10 {
		c.try(i, start)
	}
	first := c.try(10, start)
	for range 50 {
		if again := c.try(10, start); again != first {
			t.Fatalf("%s becomes %s", first, again)
		}
	}
	if next := c.try(11, start); next > 2*first {
		t.Errorf("the next waits %s after %s", next, first)
	}
}
