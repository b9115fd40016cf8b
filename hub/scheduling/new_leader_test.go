package scheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/member"
)

// A new leader asks for each pending session while no member is connected yet. Those whose status shows why
// they are pending get a reason once the members have connected; what can be placed is not delayed.
func TestReasonsOfANewLeaderWaitForTheMembers(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {"free": 1}}}
	l := newFixture(t, f)
	l.wave.expect(l.clock.Now())
	shown := func(r *Request) { r.Shown = true }
	known, placed, edited := request("known", "ann", "browser", shown), request("placed", "ann", "free", shown), request("edited", "ann", "browser")
	for _, r := range []*Request{known, placed, edited} {
		l.request(r)
	}
	if got := l.decide(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"edited", "placed"}) {
		t.Errorf("enqueued %v, want the one that is placed, and the one that shows no reason", got)
	}
	if _, ok := l.request(known); ok {
		t.Error("it gets the reason that it has before members connect")
	}
	var got []string
	at := time.Duration(0)
	for ; at <= time.Minute && len(got) == 0; at += time.Second {
		if at <= 4*time.Second {
			l.events.record(member.Change{Kind: member.MemberConnected, Member: "here", UID: here})
		}
		l.evaluateBatch(l.enqueue)
		got = l.decide()
		l.clock.Step(time.Second)
	}
	if at -= time.Second; !slices.Equal(got, []string{"known"}) || at != 4*time.Second+quiet {
		t.Errorf("enqueued %v after %s, want the known one %s after the last member has connected", got, at, quiet)
	}
	if a, ok := l.request(known); !ok || a.Placed {
		t.Errorf("answered %t: %+v", ok, a)
	}
}

// A new leader decides on one of each class of pending sessions, and not on each session, before it decides on a new
// one. What frees capacity for them meanwhile is not missed.
func TestPendingSessionsOfANewLeaderDelayNoNewOne(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {"free": 1}}}
	l := newFixture(t, f)
	l.wave.expect(l.clock.Now())
	const each = 20
	var known []*Request
	for i := range 2 * each {
		r := request(fmt.Sprint("known", i), fmt.Sprint("user", i), []string{"browser", "gpu"}[i%2], func(r *Request) { r.Shown = true })
		known = append(known, r)
		l.request(r)
	}
	l.request(request("new", "zoe", "free", func(r *Request) { r.Rank.Since = start }))
	if got := l.decide(); !slices.Equal(got, []string{"new"}) || len(f.decided) != 3 {
		t.Errorf("enqueued %v after decisions on %v, want one of each class before the new session", got, f.decided)
	}
	f.free[here]["gpu"] = 3
	l.events.record(capacityIn(here))
	l.evaluateBatch(l.enqueue)
	if l.decide(); len(f.held) != 4 {
		t.Errorf("%d have a slot once there are three more", len(f.held))
	}
	for at := time.Duration(0); at <= time.Minute; at += batchInterval {
		l.evaluateBatch(l.enqueue)
		l.decide()
		l.clock.Step(batchInterval)
	}
	waiting := 0
	for _, r := range known {
		a, ok := l.request(r)
		if !ok {
			t.Errorf("%s has no answer a minute later", r.Session.Name)
		}
		if !a.Placed {
			waiting++
		}
	}
	if waiting != 2*each-3 {
		t.Errorf("%d wait, want all but three", waiting)
	}
}

// While sessions of its class are decided on again, since capacity may be there, a session of a new leader does not
// merely join them: nothing would requeue it for what they leave.
func TestAPendingSessionOfANewLeaderMissesNoCapacity(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}}
	l := newFixture(t, f)
	l.wave.expect(l.clock.Now())
	shown := func(r *Request) { r.Shown = true }
	l.request(request("first", "ann", "browser", shown))
	l.decide()
	f.free[here]["browser"] = 2
	l.events.record(capacityIn(here))
	l.evaluateBatch(l.enqueue)
	l.request(request("second", "ben", "browser", shown))
	if l.decide(); len(f.held) != 2 {
		t.Errorf("%d of 2 slots are used", len(f.held))
	}
}

// No member connects.
func TestReasonsOfALeaderWithoutMembers(t *testing.T) {
	l := newFixture(t, &slots{free: map[types.UID]map[string]int64{}})
	l.wave.expect(l.clock.Now())
	l.request(request("known", "ann", "browser", func(r *Request) { r.Shown = true }))
	for at := time.Duration(0); at <= connecting; at += time.Second {
		if got := l.decide(); len(got) > 0 {
			t.Errorf("after %s, it is enqueued", at)
		}
		l.evaluateBatch(l.enqueue)
		l.clock.Step(time.Second)
	}
	if got := l.decide(); !slices.Equal(got, []string{"known"}) {
		t.Errorf("enqueued %v after %s", got, connecting)
	}
}
