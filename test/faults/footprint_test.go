package faults

import (
	"testing"
)

func TestGrowthIsFound(t *testing.T) {
	const mb = 1 << 20
	leader := func(goroutines, heap, files float64) footprint {
		return footprint{role: "hub leader", goroutines: goroutines, heap: heap, files: files}
	}
	standby := footprint{role: "hub standby", goroutines: 50, heap: 20 * mb, files: 12}
	usual := leader(340, 60*mb, 40)
	for name, tc := range map[string]struct {
		samples [][]footprint
		grown   int
	}{
		"as it was":              {[][]footprint{{usual}, {usual}, {usual}, {leader(350, 62*mb, 41)}}, 0},
		"goroutines":             {[][]footprint{{usual}, {usual}, {usual}, {leader(400, 60*mb, 40)}}, 1},
		"heap and files":         {[][]footprint{{usual}, {usual}, {usual}, {leader(340, 70*mb, 50)}}, 2},
		"one burst":              {[][]footprint{{usual}, {usual}, {usual}, {usual}, {usual}, {usual}, {usual}, {usual}, {usual}, {usual}, {usual}, {leader(900, 90*mb, 90)}}, 0},
		"between the quarters":   {[][]footprint{{usual}, {leader(900, 90*mb, 90)}, {leader(900, 90*mb, 90)}, {usual}}, 0},
		"a standby that leads":   {[][]footprint{{usual, standby}, {standby, usual}, {usual, standby}, {standby, usual}}, 0},
		"a role that is unknown": {[][]footprint{{usual, standby}, {usual}, {usual}, {usual}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			grown := 0
			for _, c := range changes(tc.samples) {
				if c.grown() {
					grown++
				}
			}
			if grown != tc.grown {
				t.Errorf("%d resources have grown, want %d: %v", grown, tc.grown, changes(tc.samples))
			}
		})
	}
}
