package backoff

import (
	"testing"
	"time"
)

// How soon an item is retried depends on nothing but its own failures.
func TestItemsDoNotWaitForEachOther(t *testing.T) {
	limiter := Limiter[int]()
	for item := range 10_000 {
		if wait := limiter.When(item); wait != first {
			t.Fatalf("the first retry of item %d is after %s, want %s", item, wait, first)
		}
	}
}

// An outage of a length delays the retry after it by about as much again, and never
// by more than most.
func TestRetriesAfterAnOutageAreSoon(t *testing.T) {
	for _, outage := range []time.Duration{time.Second, 5 * time.Second, time.Minute, time.Hour} {
		limiter := Limiter[string]()
		var elapsed time.Duration
		for elapsed < outage {
			elapsed += limiter.When("a")
		}
		if late := elapsed - outage; late > min(outage+2*first, most) {
			t.Errorf("after an outage of %s the item is retried %s later", outage, late)
		}
	}
}
