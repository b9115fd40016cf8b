package scheduling

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// distinct returns a request that differs from every other.
func distinct(name, namespace, user string, n int) *Request {
	return request(name, user, "browser", func(r *Request) {
		r.Session.Namespace, r.Rank.Namespace, r.Placement.Namespace = namespace, namespace, namespace
		r.Placement.Resources = placement.Resources{"cpu": int64(100_000_000 + n)}
	})
}

// Without a limit, 10,000 distinct requests of one user would be 10,000 lookups.
func TestUserCannotMultiplyTheLookupsOfACapacityReport(t *testing.T) {
	f := &slots{}
	l := newFixture(t, f)
	for i := range 10_000 {
		l.wait(distinct(fmt.Sprint("s", i), "desktops", "ann", i))
	}
	f.lookups = 0
	l.requeued(capacityIn(here))
	t.Logf("%d lookups for one capacity report, with 10,000 distinct requests of one user", f.lookups)
	if f.lookups > 100 {
		t.Errorf("%d lookups", f.lookups)
	}
}

// One batch looks up a bounded number of the distinct requests of any number of users and
// namespaces, and later batches look up the rest.
func TestBatchOfEventsAcquiresTheLockAFewTimes(t *testing.T) {
	f := &slots{}
	l := newFixture(t, f)
	const users = 100
	for i := range users * classesPerUser {
		l.wait(distinct(fmt.Sprint("s", i), fmt.Sprint("ns", i%50), fmt.Sprint("user", i/classesPerUser), i))
	}
	f.lookups, f.of = 0, nil
	l.events.record(capacityIn(here))
	if more := l.evaluateBatch(l.enqueue); !more || f.lookups != classesPerBatch {
		t.Fatalf("the first batch took %d lookups, more: %v", f.lookups, more)
	}
	// Another member changes before all were looked up: all are looked up for both changes.
	l.events.record(capacityIn(there))
	batches := 1
	for l.evaluateBatch(l.enqueue) {
		batches++
	}
	if want := (users*classesPerUser + classesPerBatch - 1) / classesPerBatch; batches != want {
		t.Errorf("%d batches, want %d", batches, want)
	}
	both := 0
	for _, members := range f.of {
		if len(members) == 2 {
			both++
		}
	}
	if both != users*classesPerUser {
		t.Errorf("%d classes were looked up for both changes, want each of %d", both, users*classesPerUser)
	}
}

// Requests beyond the limit are not requeued by events; they are rechecked by time, report
// the limit, and get a class once others are gone.
func TestRequestsBeyondTheBoundAreRecheckedAndReported(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}}
	l := newFixture(t, f)
	for i := range classesPerUser {
		l.wait(distinct(fmt.Sprint("s", i), "desktops", "ann", i))
	}
	beyond := distinct("beyond", "desktops", "ann", classesPerUser)
	l.wait(beyond)
	a, _ := l.request(beyond)
	if want := "16 distinct requests of user ann in namespace desktops"; a.ClassLimit != want || a.Again <= 0 || a.Again > DefaultRecheckAfter {
		t.Errorf("crowded out by %q, rechecked after %s", a.ClassLimit, a.Again)
	}
	for name, r := range map[string]*Request{
		"one that requests what another requests": distinct("same", "desktops", "ann", 0), "another user's": distinct("other", "desktops", "ben", 1),
	} {
		l.wait(r)
		if a, _ := l.request(r); a.ClassLimit != "" {
			t.Errorf("%s is crowded out by %q", name, a.ClassLimit)
		}
	}
	f.free[here]["browser"] = 1
	if got := l.requeued(capacityIn(here)); slices.Contains(got, "beyond") {
		t.Errorf("queued %v", got)
	}
	l.dismiss()
	f.free[here]["browser"] = 0
	l.Forget(types.NamespacedName{Namespace: "desktops", Name: "s2"})
	l.clock.Step(DefaultRecheckAfter)
	l.wait(beyond)
	f.free[here]["browser"] = 1
	if got := l.requeued(capacityIn(here)); !slices.Contains(got, "beyond") {
		t.Errorf("queued %v once there is a place", got)
	}
}

// A session that arrives when capacity has just become free does not take it from earlier
// sessions of its class.
func TestFreedCapacityIsForEarlierSessions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Request)
		spread bool
		want   string
	}{
		{"before any class was looked up", priority(0), false, "burst0"},
		{"while the first are queued", priority(0), true, "burst0"},
		{"to the one of the highest priority", priority(7), false, "new"},
		{"to the one of the highest priority, while others are queued", priority(7), true, "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &slots{free: map[types.UID]map[string]int64{here: {}}}
			l := newFixture(t, f)
			for i := range 3 {
				l.wait(request(fmt.Sprint("burst", i), "ann", "browser"))
			}
			f.free[here]["browser"] = 1
			l.events.record(capacityIn(here))
			if c.spread {
				l.evaluateBatch(l.enqueue)
			}
			l.request(request("new", "ann", "browser", c.change, func(r *Request) { r.Rank.Since = start }))
			l.decide()
			for name := range l.fleet.held {
				if name != types.UID("uid-"+c.want) {
					t.Errorf("%s has it, want %s", name, c.want)
				}
			}
			if len(l.fleet.held) != 1 {
				t.Errorf("%d have it", len(l.fleet.held))
			}
			if e := l.sessions[types.NamespacedName{Namespace: "desktops", Name: "new"}]; e.state != answered {
				t.Errorf("the new session is not answered: it is in state %d", e.state)
			}
		})
	}
}
