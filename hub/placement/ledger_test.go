package placement

import (
	"fmt"
	"testing"
)

func TestLedger(t *testing.T) {
	r := free(1000, 1)
	for _, tc := range []struct {
		name string
		do   func(*Ledger)
		want int // outstanding in m
	}{
		{"a reservation may be repeated", func(l *Ledger) { l.ReserveFor("s", 1, "m", desk, r); l.ReserveFor("s", 1, "m", desk, r) }, 1},
		{"a newer epoch replaces an older", func(l *Ledger) { l.ReserveFor("s", 1, "m", desk, r); l.ReserveFor("s", 2, "m", desk, r) }, 1},
		{"and is not released with it", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.ReserveFor("s", 2, "m", desk, r)
			l.Release("s", 1, "m")
		}, 1},
		{"an older epoch does not replace a newer", func(l *Ledger) {
			l.ReserveFor("s", 2, "m", desk, r)
			l.ReserveFor("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "", 1)
			l.Reported("m", 1)
		}, 1},
		{"a placement elsewhere frees nothing here", func(l *Ledger) { l.ReserveFor("s", 1, "m", desk, r); l.ReserveFor("s", 2, "n", desk, r) }, 1},
		{"released up to an epoch", func(l *Ledger) { l.ReserveFor("s", 1, "m", desk, r); l.Release("s", 3, "m") }, 0},
		{"a report alone counts nothing", func(l *Ledger) { l.ReserveFor("s", 1, "m", desk, r); l.Reported("m", 99) }, 1},
		{"an acknowledgment alone counts nothing", func(l *Ledger) { l.ReserveFor("s", 1, "m", desk, r); l.CountedFrom("s", 1, "m", "", 1) }, 1},
		{"an earlier report does not count it", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "", 5)
			l.Reported("m", 4)
		}, 1},
		{"the report named counts it", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "", 5)
			l.Reported("m", 5)
		}, 0},
		{"also when it came before the acknowledgment", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.Reported("m", 7)
			l.CountedFrom("s", 1, "m", "", 5)
		}, 0},
		{"a report that comes late does not count back", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.Reported("m", 7)
			l.Reported("m", 3)
			l.CountedFrom("s", 1, "m", "", 5)
		}, 0},
		{"a new instance voids what the former one promised", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "", 5)
			l.Reset("m")
			l.Reported("m", 9)
		}, 1},
		{"and what it reported", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.Reported("m", 9)
			l.Reset("m")
			l.CountedFrom("s", 1, "m", "", 1)
		}, 1},
		{"the new instance counts again", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "", 5)
			l.Reset("m")
			l.CountedFrom("s", 1, "m", "", 1)
			l.Reported("m", 1)
		}, 0},
		{"of what runs again, an acknowledgment from before counts nothing", func(l *Ledger) {
			l.ReserveAgain("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "idle", 1)
			l.Expect("s", 1, "m", "run 2")
			l.Reported("m", 9)
		}, 1},
		{"that of its run does", func(l *Ledger) {
			l.ReserveAgain("s", 1, "m", desk, r)
			l.Expect("s", 1, "m", "run 2")
			l.CountedFrom("s", 1, "m", "run 2", 9)
			l.Reported("m", 9)
		}, 0},
		{"also when it was not expected yet", func(l *Ledger) {
			l.ReserveAgain("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "run 2", 9)
			l.Reported("m", 9)
			l.Expect("s", 1, "m", "run 2")
		}, 0},
		{"what it still had is used for its next run", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "run 1", 9)
			l.ReserveAgain("s", 1, "m", desk, r)
			l.Reported("m", 9)
		}, 1},
		{"and is its own again once that is released", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.ReserveAgain("s", 1, "m", desk, r)()
		}, 1},
		{"unless it was counted meanwhile", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			release := l.ReserveAgain("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "m", "idle", 9)
			l.Reported("m", 9)
			release()
		}, 0},
		{"what is released twice is released once", func(l *Ledger) {
			release := l.ReserveAgain("s", 1, "m", desk, r)
			release()
			release()
		}, 0},
		{"an older epoch does not run again", func(l *Ledger) {
			l.ReserveFor("s", 2, "m", desk, r)
			l.ReserveAgain("s", 1, "m", desk, r)()
		}, 1},
		{"members are apart", func(l *Ledger) {
			l.ReserveFor("s", 1, "m", desk, r)
			l.CountedFrom("s", 1, "n", "", 1)
			l.Reported("n", 9)
			l.Release("s", 9, "n")
			l.Forget("n")
		}, 1},
		{"a member that is gone has no reservations", func(l *Ledger) { l.ReserveFor("s", 1, "m", desk, r); l.Forget("m") }, 0},
		{"unknown members do no harm", func(l *Ledger) {
			l.CountedFrom("s", 1, "m", "", 1)
			l.Release("s", 1, "m")
			l.Reset("m")
			l.Forget("m")
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := NewLedger()
			tc.do(l)
			if got := l.Outstanding("m"); got != tc.want {
				t.Errorf("%d outstanding, want %d", got, tc.want)
			}
		})
	}
}

// A large session with a reservation fits on one node only; a small one must not be
// placed after it, since it might be bound there first.
func TestSmallSessionsDoNotTakeTheNodeOfALargeOne(t *testing.T) {
	m := member("m", 1)
	m.Capacity = reporting(Bucket{1, free(4000, 32).Amounts()}, Bucket{5, free(1000, 32).Amounts()})
	l := NewLedger()
	l.ReserveFor("large", 1, m.UID, desk, free(4000, 4))
	if d := Place(session("small"), []Candidate{m}, l); d.Placed {
		t.Errorf("placed: %s", d.Message)
	}
	l.CountedFrom("large", 1, m.UID, "", 2)
	m.Capacity = reporting(Bucket{5, free(1000, 32).Amounts()})
	l.Reported(m.UID, 2)
	if d := Place(session("small"), []Candidate{m}, l); !d.Placed {
		t.Errorf("still not placed once the large one is counted: %s", d.Message)
	}
}

// The evaluations of many requests in many members stay bounded too.
func TestManyRequestsInManyMembers(t *testing.T) {
	l := NewLedger()
	const members, most = 2000, maxEvaluations / 2000
	for i := range members {
		l.ReserveFor("held", 1, member(fmt.Sprint(i), 0).UID, desk, free(1, 1))
	}
	for i := range int64(2 * most) {
		l.class(desk, free(i+2, 1))
	}
	if len(l.classes) > most {
		t.Errorf("%d request classes are remembered, want at most %d", len(l.classes), most)
	}
}

// A member that takes the place of a removed one is decided on by its own report.
func TestAMemberInThePlaceOfARemovedOne(t *testing.T) {
	l := NewLedger()
	first, second := member("first", 1), member("second", 0)
	if d := Place(session("s"), []Candidate{first}, l); !d.Placed {
		t.Fatal(d.Message)
	}
	l.Forget(first.UID)
	if d := Place(session("s"), []Candidate{second}, l); d.Placed {
		t.Errorf("%s: the node was the removed member's", d.Message)
	}
}

// The cache stays bounded, and reservations outlive its eviction.
func TestManyRequests(t *testing.T) {
	l := NewLedger()
	m := member("m", 1000)
	l.ReserveFor("held", 1, m.UID, desk, free(1, 1))
	for i := range int64(3 * maxRequestClasses) {
		r := session("s")
		r.Resources = free(i+2, 1)
		Place(r, []Candidate{m}, l)
	}
	if len(l.classes) > maxRequestClasses {
		t.Errorf("%d request classes are remembered", len(l.classes))
	}
	l.Release("held", 1, m.UID)
	if l.Outstanding(m.UID) != 0 || len(l.accounts[m.UID].groups) != 0 {
		t.Error("the reservation is still there")
	}
}

// A report that arrives is evaluated for the requests that were decided on recently, and only for
// those.
func TestAReportIsEvaluatedWhenItArrives(t *testing.T) {
	l := NewLedger()
	m := member("m", 2)
	r := session("s")
	Place(r, []Candidate{m}, l)
	l.class(desk, free(7, 7)) // never decided on
	report := *m.Capacity
	report.Sequence++
	e := l.Evaluation(m.UID, &report)
	e.Compute()
	l.Evaluated(e)
	a := l.accounts[m.UID]
	for key, q := range l.classes {
		evaluated := a.slot < len(q.evaluations) && q.evaluations[a.slot].version == a.version
		if want := q.used > 0; evaluated != want {
			t.Errorf("%v is evaluated: %t, want %t", key, evaluated, want)
		}
	}
	if a.capacity != &report {
		t.Error("the account has another report")
	}

	l.Forget(m.UID)
	l.Evaluated(e)
	if len(l.accounts) > 0 {
		t.Error("a removed member has an account again")
	}
}

// A decision on all members moves their accounts in memory.
func TestAReservationIsRevertedAfterADecisionOnOthers(t *testing.T) {
	t.Parallel()
	l, r := NewLedger(), session("s")
	l.ReserveFor(r.UID, 1, "uid-a", r.Template, sizes[0])
	restore := l.ReserveAgain(r.UID, 2, "uid-a", r.Template, sizes[1])
	if d := Place(session("other"), []Candidate{member("a", 1), member("b", 1)}, l); !d.Placed {
		t.Fatal(d.Message)
	}
	l.ReserveFor("session-third", 1, "uid-a", r.Template, sizes[2])
	restore()
	a := l.accounts["uid-a"]
	if held := a.reservations[r.UID]; held == nil || held.epoch != 1 {
		t.Errorf("the reservation from before is %v", held)
	}
	for _, g := range a.groups {
		if g.class == l.class(r.Template, sizes[1]) {
			t.Error("the reverted reservation still counts")
		}
	}
	if len(a.groups) != 2 {
		t.Errorf("%d classes have reservations, want 2", len(a.groups))
	}
}
