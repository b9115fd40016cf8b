package main

import (
	"testing"
	"time"
)

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
	} {
		if got := mostWithin(tc.times, 10*time.Second); got != tc.want {
			t.Errorf("%d of %v are within 10 s, want %d", got, tc.times, tc.want)
		}
	}
}
