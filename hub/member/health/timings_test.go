package health

import (
	"testing"
	"time"
)

// The agents of a large fleet renew less often, and one renewal that is lost still makes no member Suspect.
func TestRenewInterval(t *testing.T) {
	for _, c := range []struct {
		factor  float64
		members int
		want    time.Duration
	}{
		{1, 0, 5 * time.Second},
		{1, largeFleet, 5 * time.Second},
		{1, 900, 6 * time.Second},
		{1, 1000, 6667 * time.Millisecond},
		{1, 100_000, 6818 * time.Millisecond},
		{0.1, 900, 600 * time.Millisecond},
	} {
		timings := DefaultTimings(c.factor)
		got := timings.RenewInterval(c.members)
		if got.Round(time.Millisecond) != c.want {
			t.Errorf("%d members, factor %v: every %s, want %s", c.members, c.factor, got, c.want)
		}
		if late := time.Duration(float64(got) * (1 + renewJitter)); 2*late > timings.Suspect {
			t.Errorf("%d members, factor %v: the second renewal is sent after %s, and the member is Suspect at %s", c.members, c.factor, 2*late, timings.Suspect)
		}
	}
	// Of timings that leave no time for it, none changes.
	if got := (Timings{Renew: 5 * time.Second, Suspect: 10 * time.Second}).RenewInterval(1000); got != 5*time.Second {
		t.Errorf("every %s, want the 5 s that are declared", got)
	}
}
