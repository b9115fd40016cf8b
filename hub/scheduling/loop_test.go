package scheduling

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
)

func TestSessionsAreDecidedOnInTheirOrder(t *testing.T) {
	l := newFixture(t, &slots{free: map[types.UID]map[string]int64{here: {"browser": 10}}})
	for _, r := range []*Request{
		request("a1", "ann", "browser"), request("a2", "ann", "browser"), request("b1", "ben", "browser"), request("high", "ann", "browser", priority(1)),
	} {
		l.request(r)
	}
	if got, want := l.decide(), []string{"high", "a1", "b1", "a2"}; !slices.Equal(got, want) {
		t.Errorf("decided on %v, want %v", got, want)
	}
}

func TestQueuedSessionMovesWithItsPriority(t *testing.T) {
	l := newFixture(t, &slots{free: map[types.UID]map[string]int64{here: {"browser": 10}}})
	l.request(request("first", "ann", "browser"))
	l.request(request("last", "ann", "browser"))
	l.request(request("last", "ann", "browser", priority(5)))
	if got := l.decide(); got[0] != "last" {
		t.Errorf("decided on %v, want first the one whose priority was raised", got)
	}
}

// A session that arrives while decisions are unwritten waits only for some of them.
func TestUnwrittenDecisionsAreBounded(t *testing.T) {
	l := newFixture(t, &slots{free: map[types.UID]map[string]int64{here: {"browser": 1000}}})
	requests := map[string]*Request{}
	for i := range 3 * maxUnwritten {
		r := request(fmt.Sprint("s", i), "ann", "browser")
		requests[r.Session.Name] = r
		l.request(r)
	}
	first := l.decide()
	if len(first) != maxUnwritten {
		t.Fatalf("%d answers, want %d", len(first), maxUnwritten)
	}
	l.request(request("high", "ben", "browser", priority(9)))
	if got := l.decide(); len(got) > 0 {
		t.Fatalf("%v are decided on while no answer is written", got)
	}
	if next := requests[first[0]].Session; !l.Answered(next) {
		t.Errorf("%s is not known to be answered", next)
	}
	l.placed(requests[first[0]])
	if next := requests[first[0]].Session; l.Answered(next) {
		t.Errorf("%s is still answered after its placement was written", next)
	}
	if got := l.decide(); !slices.Equal(got, []string{"high"}) {
		t.Errorf("decided on %v after one was written, want the one of the highest priority", got)
	}
}

func TestUnusedDecisionReleasesItsCapacity(t *testing.T) {
	for name, then := range map[string]func(l *fixture, r *Request){
		"the session makes no request":      func(l *fixture, r *Request) { l.Done(r.Session, false, nil) },
		"its pass fails before its request": func(l *fixture, r *Request) { l.Done(r.Session, false, errors.New("away")) },
		"it is deleted":                     func(l *fixture, r *Request) { l.Forget(r.Session) },
		"it waits for its home":             func(l *fixture, r *Request) { l.Wait(r.Session, r.Placement.UID, r.Rank, v1alpha1.ReasonHomeInUse) },
		"it requests something else":        func(l *fixture, r *Request) { l.request(request("s", "ann", "other")) },
		"it requests another epoch": func(l *fixture, r *Request) {
			l.request(request("s", "ann", "browser", func(r *Request) { r.Epoch = 2 }))
		},
		"another session has its name": func(l *fixture, r *Request) {
			l.request(request("s", "ann", "browser", func(r *Request) { r.Placement.UID = "new" }))
		},
		"its preference of regions is new": func(l *fixture, r *Request) {
			l.request(request("s", "ann", "browser", func(r *Request) { r.Placement.PreferredRegions = []string{"eu"} }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &slots{free: map[types.UID]map[string]int64{here: {"browser": 1}}}
			l := newFixture(t, f)
			r := request("s", "ann", "browser")
			l.request(r)
			l.decide()
			then(l, r)
			if f.free[here]["browser"] != 1 || f.released != 1 || l.unwritten != 0 {
				t.Errorf("%d slots free, %d released, %d answers are to be written", f.free[here]["browser"], f.released, l.unwritten)
			}
		})
	}
}

// The request changes, or is withdrawn, while the loop decides on it.
func TestDecisionOnAnEarlierRequestIsForgotten(t *testing.T) {
	for name, meanwhile := range map[string]func(l *fixture){
		"it requests something else": func(l *fixture) { l.request(request("s", "ann", "other")) },
		"it is gone":                 func(l *fixture) { l.Forget(types.NamespacedName{Namespace: "desktops", Name: "s"}) },
	} {
		t.Run(name, func(t *testing.T) {
			f := &slots{free: map[types.UID]map[string]int64{here: {"browser": 1}}}
			l := newFixture(t, f)
			l.request(request("s", "ann", "browser"))
			f.deciding = func(string) { f.deciding = nil; meanwhile(l) }
			if got := l.decide(); slices.Contains(got, "s") && len(l.sessions) == 0 || f.free[here]["browser"] != 1 {
				t.Errorf("enqueued %v, %d slots free", got, f.free[here]["browser"])
			}
		})
	}
}

func TestWrittenPlacementIsCharged(t *testing.T) {
	l := newFixture(t, &slots{free: map[types.UID]map[string]int64{here: {"browser": 10}}})
	a, b := request("a", "ann", "browser"), request("b", "ben", "browser")
	l.request(a)
	l.request(b)
	l.decide()
	l.placed(a)
	l.Decide(b)
	l.Done(b.Session, false, errors.New("not written"))
	l.request(request("a2", "ann", "browser"))
	l.request(b)
	if got := l.decide(); !slices.Equal(got, []string{"b", "a2"}) {
		t.Errorf("decided on %v, want first the one that got nothing", got)
	}
}

func TestPendingSessionIsAnsweredAtOnceUntilItsRecheck(t *testing.T) {
	f := &slots{}
	l := newFixture(t, f)
	r := request("s", "ann", "browser")
	l.wait(r)
	l.clock.Step(10 * time.Second)
	a, ok := l.request(r)
	if !ok || a.Again <= 0 || a.Again > DefaultRecheckAfter-10*time.Second {
		t.Fatalf("answered %t, to be requested again after %s", ok, a.Again)
	}
	if len(f.decided) != 1 {
		t.Errorf("decided %d times", len(f.decided))
	}
	l.clock.Step(DefaultRecheckAfter)
	if _, ok := l.request(r); ok || !slices.Equal(l.decide(), []string{"s"}) {
		t.Error("it is not decided on again when its time has come")
	}
}

func TestPendingSessionIsRecheckedWithBackoff(t *testing.T) {
	l := newFixture(t, &slots{})
	r := request("s", "ann", "browser")
	for _, want := range []time.Duration{30, 30, 60, 120, 240, 300, 300} {
		want *= time.Second
		l.request(r)
		l.decide()
		a, _ := l.request(r)
		if a.Again > want || a.Again < want*8/10 {
			t.Errorf("rechecked after %s, want about %s", a.Again, want)
		}
		l.clock.Step(want)
	}
	other := request("s", "ann", "gpu")
	l.request(other)
	l.decide()
	if a, _ := l.request(other); a.Again > RecheckAtMost {
		t.Errorf("rechecked after %s", a.Again)
	}
}

func TestResume(t *testing.T) {
	in := func(stays bool) func(*Request) {
		return func(r *Request) {
			r.Resume = &Resume{Placement: r.Placement, Member: v1alpha1.ClusterRef{Name: "here", UID: here}, Epoch: 1, Run: 2, Pinned: stays}
		}
	}
	capacity := map[types.UID]map[string]int64{there: {"browser": 1}}
	for _, c := range []struct {
		name        string
		fleet       *slots
		stays       bool
		placed      bool
		other       bool
		otherPlaced bool
	}{
		{name: "where it is", fleet: &slots{idle: map[types.UID]int64{here: 1}, free: capacity}, placed: true},
		{name: "in another member", fleet: &slots{free: map[types.UID]map[string]int64{there: {"browser": 1}}}, other: true, otherPlaced: true},
		{name: "nowhere", fleet: &slots{}, other: true},
		{name: "nowhere, for one that stays", fleet: &slots{free: map[types.UID]map[string]int64{there: {"browser": 1}}}, stays: true},
		{name: "once its member is back", fleet: &slots{free: map[types.UID]map[string]int64{there: {"browser": 1}}, away: map[types.UID]bool{here: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newFixture(t, c.fleet)
			r := request("s", "ann", "browser", in(c.stays))
			l.request(r)
			l.decide()
			a, ok := l.Decide(r)
			if !ok || a.Placed != c.placed || (a.Other != nil) != c.other || c.other && a.Other.Placed != c.otherPlaced {
				t.Errorf("answered %t: %+v", ok, a)
			}
		})
	}
}

// A failover that must wait is not a pending request: the controller retries it in time.
func TestFailoverThatIsNotDueIsRetried(t *testing.T) {
	f := &slots{verdict: failover.Verdict{Due: true, Wait: time.Second, Message: "soon"}}
	l := newFixture(t, f)
	r := request("s", "ann", "browser", func(r *Request) { r.Failover = &Failover{From: here} })
	for range 2 {
		if _, ok := l.request(r); ok {
			t.Fatal("it is answered without a decision")
		}
		l.decide()
		if a, ok := l.request(r); !ok || a.Verdict.Message != "soon" {
			t.Fatalf("answered %t: %+v", ok, a)
		}
	}
	if all := l.Pending(func(*Request) bool { return true }); len(all) > 0 {
		t.Errorf("%v are pending", all)
	}
	f.verdict.Wait = 0
	l.wait(r)
	if all := l.Pending(func(*Request) bool { return true }); len(all) != 1 {
		t.Errorf("%v are pending, want the one that no member takes", all)
	}
}

// The loop places a session that waits for capacity once a member reports it.
func TestLoopPlacesAPendingSessionWhenCapacityIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &slots{free: map[types.UID]map[string]int64{here: {"browser": 0}}}
		s := New(Options{Cache: f, Members: f, Clock: clock.RealClock{}})
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		if err := s.Start(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		r := request("s", "ann", "browser")
		next := func() (Answer, bool) {
			synctest.Wait()
			if q.Len() == 0 {
				time.Sleep(2 * batchInterval)
			}
			item, _ := q.Get()
			q.Done(item)
			a, ok := s.Decide(r)
			s.Done(r.Session, a.Placed, nil)
			return a, ok
		}
		if _, ok := s.Decide(r); ok {
			t.Fatal("answered before it is decided on")
		}
		s.Done(r.Session, false, nil)
		if a, ok := next(); !ok || a.Placed {
			t.Fatalf("answered %t: %+v", ok, a)
		}
		f.mu.Lock()
		f.free[here]["browser"] = 1
		f.mu.Unlock()
		f.listener(capacityIn(here))
		if a, ok := next(); !ok || !a.Placed {
			t.Errorf("answered %t: %+v", ok, a)
		}
	})
}
