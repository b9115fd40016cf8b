package scheduling

import (
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
