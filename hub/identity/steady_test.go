package identity

import (
	"testing"
	"time"
)

func TestASteadyClockIgnoresTheWallClock(t *testing.T) {
	var passed time.Duration
	wall := time.Now()
	clock := steadyFrom(wall, func() time.Duration { return passed })
	if got := clock(); !got.Equal(wall) {
		t.Errorf("it began at %s, not %s", got, wall)
	}
	passed = 36 * time.Hour
	now := clock()
	if want := wall.Add(36 * time.Hour); !now.Equal(want) {
		t.Errorf("it shows %s, not %s", now, want)
	}
	// A reading of the monotonic clock in it would make a comparison with another
	// time of this process go by that, and not by what the clock shows.
	if now != now.Round(0) {
		t.Error("it still has a reading of the monotonic clock")
	}
}

func TestASteadyClockAdvances(t *testing.T) {
	clock := SteadyClock()
	before := clock()
	for deadline := time.Now().Add(10 * time.Second); !clock().After(before); {
		if time.Now().After(deadline) {
			t.Fatal("it stands still")
		}
	}
}
