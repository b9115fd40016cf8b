package faults

import (
	"testing"
)

func TestGrowthIsFound(t *testing.T) {
	before := firstOfEach(nil, []footprint{{Process: "hub-0", PID: 1, Goroutines: 200, RSS: 80 << 20}})
	for name, tc := range map[string]struct {
		after footprint
		fails bool
	}{
		"as it was":        {footprint{Process: "hub-0", PID: 1, Goroutines: 210, RSS: 90 << 20}, false},
		"more goroutines":  {footprint{Process: "hub-0", PID: 1, Goroutines: 400, RSS: 80 << 20}, true},
		"more memory":      {footprint{Process: "hub-0", PID: 1, Goroutines: 200, RSS: 300 << 20}, true},
		"another process":  {footprint{Process: "hub-1", PID: 2, Goroutines: 900, RSS: 900 << 20}, false},
		"another role":     {footprint{Process: "hub-0", PID: 1, Leads: true, Goroutines: 900, RSS: 900 << 20}, false},
		"a new one's size": {footprint{Process: "hub-0", PID: 9, Goroutines: 250, RSS: 100 << 20}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := grown(before, []footprint{tc.after}); (err != nil) != tc.fails {
				t.Errorf("grown: %v, want an error: %t", err, tc.fails)
			}
		})
	}
}

func TestEachRoleHasItsOwnFirst(t *testing.T) {
	waits := footprint{Process: "hub-0", Goroutines: 40}
	leads := footprint{Process: "hub-0", Leads: true, Goroutines: 290}
	before := firstOfEach(firstOfEach(nil, []footprint{waits}), []footprint{leads})
	for _, again := range []footprint{waits, leads} {
		if err := grown(before, []footprint{again}); err != nil {
			t.Error(err)
		}
	}
	leads.Goroutines = 900
	if before = firstOfEach(before, []footprint{leads}); grown(before, []footprint{leads}) == nil {
		t.Error("a leak of the leader is mistaken for its size")
	}
}
