package fence

import (
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// machine has clocks that a test moves.
type machine struct {
	boot time.Duration
	wall time.Time
}

func (m *machine) runs(d time.Duration) { m.boot, m.wall = m.boot+d, m.wall.Add(d) }

func TestElapsedCountsAPauseOfTheMachine(t *testing.T) {
	m := &machine{boot: time.Hour, wall: noon}
	clock := newElapsed(func() boottime.Instant { return boottime.Instant{Boot: m.boot, Wall: m.wall} }, 10*time.Second)
	for _, step := range []struct {
		name string
		do   func()
		want time.Duration
	}{
		{"at first", func() {}, time.Hour},
		{"time passes", func() { m.runs(time.Minute) }, 61 * time.Minute},
		{"the wall's clock is set forward a little", func() { m.wall = m.wall.Add(9 * time.Second) }, 61 * time.Minute},
		{"the wall's clock is set back", func() { m.wall = m.wall.Add(-time.Hour) }, 61 * time.Minute},
		{"time passes again", func() { m.runs(time.Minute) }, 62 * time.Minute},
		{"the machine is paused", func() { m.wall = m.wall.Add(6*time.Minute + 10*time.Second) }, 68 * time.Minute},
		{"time passes after it", func() { m.runs(time.Minute) }, 69 * time.Minute},
	} {
		step.do()
		if got := clock.Now(); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// A hypervisor stops the boot clock too. The remaining lease, accepted renewals and the next
// process's lease depend on the wall clock.
func TestALeaseIsOverAfterAPauseOfTheMachine(t *testing.T) {
	paused := func(seconds int, pause time.Duration) boottime.Instant {
		now := at(seconds)
		now.Wall = now.Wall.Add(pause)
		return now
	}
	for name, left := range map[string]func() time.Duration{
		"of the process": func() time.Duration { return fresh(grantedAt(0)).left(paused(10, 6*time.Minute)) },
		"of an answer": func() time.Duration {
			l := fresh()
			l.granted(grantedAt(0), paused(1, 6*time.Minute))
			return l.left(paused(2, 6*time.Minute))
		},
		"of a new process": func() time.Duration {
			r := &Record{Grant: grantedAt(0), BootID: "boot"}
			return restore(r, "boot", paused(10, 6*time.Minute), skew).left(paused(10, 6*time.Minute))
		},
	} {
		if got := left(); got != 0 {
			t.Errorf("the lease %s lasts %s more after a pause of 6 min", name, got)
		}
	}
	if got := fresh(grantedAt(0)).left(paused(10, time.Minute)); got != length-time.Minute-10*time.Second+skew {
		t.Errorf("%s are left after a pause of a minute", got)
	}
	if got := fresh(grantedAt(0)).left(paused(10, skew)); got != length-10*time.Second {
		t.Errorf("%s are left after the clock was set by the skew", got)
	}
}
