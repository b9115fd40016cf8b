package backoff

import (
	"testing"
	"time"
)

func TestStatusWritesAreBoundedWhateverTheNumberOfObjects(t *testing.T) {
	t.Parallel()
	for objects, want := range map[int]time.Duration{0: 2 * time.Second, 40: 2 * time.Second, 100: 5 * time.Second, 1000: 50 * time.Second} {
		if have := StatusIntervalOf(objects); have != want {
			t.Errorf("each of %d objects is written every %s, want %s", objects, have, want)
		}
	}
}

func TestWritesOfLeasesAreBoundedWhateverTheNumberOfMembers(t *testing.T) {
	t.Parallel()
	for members, want := range map[int]time.Duration{0: 0, 60: 30 * time.Second, 1000: 500 * time.Second} {
		if have := LeaseIntervalOf(members); have != want {
			t.Errorf("each of %d Leases is written every %s, want %s", members, have, want)
		}
	}
}
