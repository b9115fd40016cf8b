package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// observed returns a growth that placed 60 sessions on the free slots elsewhere, 10 a second, and then 440
// in the target, most of them on 11 new nodes.
func observed() *growth {
	fleet := &harness.Fleet{Members: []*harness.Member{{}, {}, {}}}
	for i, name := range []string{"lost", "target", "elsewhere"} {
		fleet.Members[i].Name = name
	}
	g := newGrowth(&loss{fleet: fleet, sessions: 500, seen: map[string]*way{}})
	began := time.Unix(1e9, 0)
	for i := range g.sessions {
		at := began.Add(time.Duration(i) * time.Second / targetRate)
		w := &way{decided: at, placed: at.Truncate(time.Second), target: "elsewhere"}
		if i >= freeElsewhere {
			w.target, w.onNewNode = "target", i >= freeElsewhere+freeInTarget
		}
		g.seen[fmt.Sprint(i)] = w
	}
	g.mostClaims = 11
	return g
}

func TestGrowingFailoverIsChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*growth)
		want   string // in the error, "" for none
	}{
		"as it should be":      {func(*growth) {}, ""},
		"too many nodes":       {func(g *growth) { g.mostClaims++ }, "more than maxNodes 11"},
		"no new node":          {func(g *growth) { g.mostClaims = 0 }, "nothing was measured"},
		"a free slot is left":  {func(g *growth) { g.seen["0"].target = "target" }, "59 of 60 free slots"},
		"new nodes come first": {func(g *growth) { g.seen["60"].onNewNode, g.seen["60"].decided = true, time.Unix(0, 0) }, "60 of 60 free slots of elsewhere were used, 0 before"},
		"too fast": {func(g *growth) {
			for i := range 40 {
				g.seen[fmt.Sprint(400+i)].placed = g.seen["350"].placed
			}
		}, "sessions were placed in target within 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			g := observed()
			tc.change(g)
			err := g.check(t.Context())
			if got := fmt.Sprint(err); (err == nil) != (tc.want == "") || !strings.Contains(got, tc.want) && tc.want != "" {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMostPlacementsWithinAWindow(t *testing.T) {
	began := time.Unix(1e9, 0)
	at := func(seconds ...float64) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, began.Add(time.Duration(s*float64(time.Second))))
		}
		return all
	}
	for _, tc := range []struct {
		times []time.Time
		want  int
	}{
		{nil, 0},
		{at(0), 1},
		{at(0, 10), 2},
		{at(0, 10.5), 1},
		{at(0, 9, 11, 12, 13, 30), 4},
		{at(30, 13, 12, 0, 11, 9), 4},
	} {
		if got := mostWithin(tc.times, 10*time.Second); got != tc.want {
			t.Errorf("%d of %v are within 10 s, want %d", got, tc.times, tc.want)
		}
	}
}
