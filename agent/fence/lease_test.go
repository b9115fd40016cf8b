package fence

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

const length = 180 * time.Second

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// at is a moment so many seconds after a boot at noon.
func at(seconds int) boottime.Instant {
	d := time.Duration(seconds) * time.Second
	return boottime.Instant{Boot: d, Wall: noon.Add(d)}
}

func grantedAt(seconds int) Grant { return Grant{Sent: at(seconds), Length: length} }

// fresh is the lease of a process without a record, whose first lapse affects no session.
func fresh(grants ...Grant) *lease {
	l := restore(nil, "boot", at(0), skew)
	l.handled = l.lapses
	for _, g := range grants {
		l.granted(g, g.Sent)
	}
	return l
}

func TestALeaseCountsFromWhenItsRenewalWasSent(t *testing.T) {
	l := fresh()
	l.granted(grantedAt(10), at(100)) // The answer was long in coming.
	if got := l.left(at(100)); got != 90*time.Second {
		t.Errorf("%s are left, want 90s", got)
	}
	l.granted(grantedAt(5), at(101)) // An answer that was overtaken.
	if got := l.left(at(101)); got != 89*time.Second {
		t.Errorf("an earlier renewal changed it: %s are left, want 89s", got)
	}
	if l.granted(grantedAt(200), at(110)); l.left(at(110)) != 80*time.Second {
		t.Error("a renewal of the future counts")
	}
	if l.left(at(189)) != time.Second || l.left(at(190)) != 0 || !l.lapsed() {
		t.Error("it does not end 180s after it was sent")
	}
}

func TestALeaseThatLapsedCountsAgainOnceTheLapseIsHandled(t *testing.T) {
	l := fresh(grantedAt(0))
	l.granted(grantedAt(181), at(182)) // The clock was not read meanwhile.
	if !l.lapsed() || l.left(at(182)) != 0 || !l.renewed(at(182)) {
		t.Fatal("a lapse went unnoticed")
	}
	w := l.number(41)
	if w.Lapse != 42 || !w.Marking || w.Grant != grantedAt(181) {
		t.Fatalf("the record is %+v", w)
	}
	if l.stored(w); l.lapsed() || l.left(at(183)) != 0 {
		t.Fatal("it counts before all assignments are marked")
	}
	if l.stored(l.marked()); l.left(at(183)) != 178*time.Second {
		t.Errorf("%s are left once they are", l.left(at(183)))
	}
}

func TestALeaseThatEndsWhileAssignmentsAreMarkedIsAnotherLapse(t *testing.T) {
	l := fresh(grantedAt(0))
	l.granted(grantedAt(200), at(200))
	w := l.number(0)
	l.advance(at(380))
	l.stored(w) // It was long in being written.
	l.granted(grantedAt(381), at(381))
	if !l.lapsed() || l.left(at(381)) != 0 {
		t.Error("the second lapse was handled with the first")
	}
	if w := l.number(0); w.Lapse != 2 {
		t.Errorf("it has the number %d", w.Lapse)
	}
}

func TestARestart(t *testing.T) {
	record := func(change func(*Record)) *Record {
		r := &Record{Grant: grantedAt(100), BootID: "boot", Lapse: 3}
		change(r)
		return r
	}
	for name, tc := range map[string]struct {
		left   *Record
		boot   string
		now    boottime.Instant
		want   time.Duration
		lapsed bool
	}{
		"goes on with what is left":             {record(func(*Record) {}), "boot", at(150), 130 * time.Second, false},
		"whatever the wall clock shows":         {record(func(*Record) {}), "boot", boottime.Instant{Boot: 150 * time.Second, Wall: noon.Add(-time.Hour)}, 130 * time.Second, false},
		"is a lapse once nothing is left":       {record(func(*Record) {}), "boot", at(280), 0, true},
		"after another boot has less by a skew": {record(func(*Record) {}), "later", boottime.Instant{Boot: time.Second, Wall: noon.Add(150 * time.Second)}, 120 * time.Second, false},
		"after another boot is over earlier":    {record(func(*Record) {}), "later", boottime.Instant{Boot: time.Second, Wall: noon.Add(270 * time.Second)}, 0, true},
		"on a node whose clock is behind":       {record(func(*Record) {}), "other", boottime.Instant{Boot: time.Hour, Wall: noon.Add(95 * time.Second)}, 175 * time.Second, false},
		"on one whose clock is far behind":      {record(func(*Record) {}), "other", boottime.Instant{Boot: time.Hour, Wall: noon}, 0, true},
		"of an agent that never had a lease":    {nil, "boot", at(150), 0, true},
		"from before the boot began":            {record(func(*Record) {}), "boot", at(50), 0, true},
		"amid marking goes on with that":        {record(func(r *Record) { r.Marking = true }), "boot", at(150), 0, false},
		"with a record without a lease":         {record(func(r *Record) { r.Length = 0 }), "boot", at(150), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := restore(tc.left, tc.boot, tc.now, skew)
			if got := l.left(tc.now); got != tc.want || l.lapsed() != tc.lapsed {
				t.Errorf("%s left, lapsed: %t; want %s, %t", got, l.lapsed(), tc.want, tc.lapsed)
			}
			if tc.left != nil && l.record.Lapse != 3 {
				t.Errorf("the last lapse is %d", l.record.Lapse)
			}
		})
	}
}

func TestTheRecordIsRefreshedSixTimesALease(t *testing.T) {
	l := fresh()
	writes := 0
	for s := 0; s <= 1800; s += 5 {
		l.granted(grantedAt(s), at(s))
		if w, due := l.refresh(at(s)); due {
			writes++
			l.stored(w)
		}
		if !l.isDurable(at(s)) {
			t.Fatalf("after %d seconds a restart would find no lease", s)
		}
	}
	if writes != 61 {
		t.Errorf("%d writes in 10 leases, want 61", writes)
	}
}

// world is a member with one guarded desktop, its agent, and the hub's grants and affirmations
// by true time.
type world struct {
	now time.Duration
	// booted is when the machine began, and its number.
	booted time.Duration
	boot   int
	// wrong is the error of the wall clock.
	wrong time.Duration

	l *lease
	// sent renewals that were not answered yet.
	sent []boottime.Instant
	// record that is durable, and a write that is on its way.
	record  *Record
	writing *pendingRecord

	// end of the newest lease that was granted; over: it has passed since.
	end  time.Duration
	over bool
	// lapses counts true lapses: now, when the assignment was last marked, and when it was
	// last affirmed.
	lapses, whenMarked, affirmed int
	status, spec                 int64
}

func (w *world) instant() boottime.Instant {
	return boottime.Instant{Boot: w.now - w.booted, Wall: noon.Add(w.now + w.wrong)}
}

func (w *world) bootID() string { return fmt.Sprint(w.boot) }

// wait advances time.
func (w *world) wait(d time.Duration) {
	if w.now += d; w.now >= w.end && !w.over {
		w.over = true
		w.lapses++
	}
}

func (w *world) restart() {
	w.sent, w.writing = nil, nil
	w.l = restore(w.record, w.bootID(), w.instant(), skew)
}

// step is the keeper's, whose writes may be slow, or lost.
func (w *world) step(t *rapid.T) {
	if w.writing != nil {
		if rapid.Bool().Draw(t, "the write arrives") {
			w.record = &w.writing.Record
			w.l.stored(*w.writing)
			w.writing = nil
		}
		return
	}
	now := w.instant()
	next, due := w.l.refresh(now)
	switch {
	case w.l.renewed(now) && w.l.lapsed():
		next = w.l.number(max(w.status, w.spec))
	case w.l.renewed(now) && w.l.record.Marking && w.status < w.l.record.Lapse:
		w.status, w.whenMarked = w.l.record.Lapse, w.lapses
		return
	case w.l.renewed(now) && w.l.record.Marking:
		next = w.l.marked()
	case !due:
		return
	}
	w.writing = &next
}

func (w *world) check(t *rapid.T) {
	left := w.l.left(w.instant())
	if left > 0 && left > w.end-w.now {
		t.Fatalf("%s are left of a lease that ends in %s", left, w.end-w.now)
	}
	if left > 0 && w.spec >= w.status && w.affirmed < w.lapses {
		t.Fatalf("it runs after %d lapses, of which %d were affirmed (marked %d, affirmed %d)", w.lapses, w.affirmed, w.status, w.spec)
	}
}

func (w *world) actions(skewed time.Duration, boots bool) map[string]func(*rapid.T) {
	seconds := func(t *rapid.T, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most*1000).Draw(t, "while")) * time.Millisecond
	}
	return map[string]func(*rapid.T){
		"":                w.check,
		"time passes":     func(t *rapid.T) { w.wait(seconds(t, 60)) },
		"much time":       func(t *rapid.T) { w.wait(seconds(t, 400)) },
		"the keeper":      w.step,
		"goes on":         w.step,
		"a renewal":       func(*rapid.T) { w.sent = append(w.sent, w.instant()) },
		"one is granted":  func(t *rapid.T) { w.grant(t) },
		"and another one": func(t *rapid.T) { w.grant(t) },
		"the hub affirms": func(*rapid.T) {
			if w.status > w.spec {
				w.spec, w.affirmed = w.status, w.whenMarked
			}
		},
		"the clock is set": func(t *rapid.T) {
			w.wrong = time.Duration(rapid.Int64Range(-int64(skewed), int64(skewed)).Draw(t, "wrong"))
		},
		"the agent restarts": func(t *rapid.T) { w.wait(seconds(t, 30)); w.restart() },
		"it dies as it writes": func(*rapid.T) {
			if w.writing != nil {
				w.record = &w.writing.Record
			}
			w.restart()
		},
		"another node takes over": func(t *rapid.T) {
			if !boots {
				t.Skip("one node")
			}
			w.wait(seconds(t, 200))
			w.boot++
			w.booted = w.now - seconds(t, 1000)
			w.restart()
		},
	}
}

func (w *world) grant(t *rapid.T) {
	if len(w.sent) == 0 {
		t.Skip("none was sent")
	}
	i := rapid.IntRange(0, len(w.sent)-1).Draw(t, "which")
	sent := w.sent[i]
	w.sent = append(w.sent[:i], w.sent[i+1:]...)
	if end := w.booted + sent.Boot + length; end > w.now && end > w.end {
		w.end, w.over = end, false
	}
	w.l.granted(Grant{Sent: sent, Length: length}, w.instant())
}

// A guarded desktop without any grant counts as a lapse.
func newWorld() *world {
	w := &world{now: 1000 * time.Second, over: true, lapses: 1}
	w.restart()
	return w
}

func TestNoLeaseIsLongerThanTheHubGranted(t *testing.T) {
	t.Run("on one node, whatever sets its clock", rapid.MakeCheck(func(t *rapid.T) {
		t.Repeat(newWorld().actions(10000*time.Hour, false))
	}))
	t.Run("on nodes whose clocks differ", rapid.MakeCheck(func(t *rapid.T) {
		t.Repeat(newWorld().actions(skew/2, true))
	}))
}

// A restart shortens a lease by the age of the record, and on another machine by the skew.
func TestARestartDoesNotEndALease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.l.handled = w.l.lapses
		renewals := rapid.IntRange(1, 60).Draw(t, "renewals")
		for range renewals {
			w.now += 5 * time.Second
			w.l.granted(Grant{Sent: w.instant(), Length: length}, w.instant())
			w.end = w.now + length
			if next, due := w.l.refresh(w.instant()); due {
				w.record = &next.Record
				w.l.stored(next)
			}
		}
		w.now += time.Duration(rapid.IntRange(0, 170).Draw(t, "away")) * time.Second
		loss := length / 6
		if rapid.Bool().Draw(t, "another node") {
			w.boot, w.booted, loss = 1, w.now-time.Hour, loss+skew
		}
		w.restart()
		got, most := w.l.left(w.instant()), w.end-w.now
		if least := most - loss; got > most || got < least || w.l.lapsed() != (got == 0) {
			t.Errorf("%s are left, lapsed: %t; want between %s and %s", got, w.l.lapsed(), least, most)
		}
	})
}
