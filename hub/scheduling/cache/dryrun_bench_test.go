package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// benchCache returns a cache of members with capacity for a hundred sessions each, and
// reservations that no report counts yet.
func benchCache(members, reservations int) *Cache {
	of := make([]placement.Candidate, 0, members)
	for i := range members {
		of = append(of, member(fmt.Sprint("m", i), "eu", 100))
	}
	c := newCache(of...)
	for i := range reservations {
		at := of[i%members].UID
		c.Reserve(onHub(fmt.Sprint("reserved-", i), 1, at), 1, 1, at)
	}
	return c
}

// BenchmarkReview prints how long the copy of a review delays decisions, and how long a
// review of a hundred sessions takes.
func BenchmarkReview(b *testing.B) {
	for _, members := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint("members=", members), func(b *testing.B) {
			c := benchCache(members, 20_000)
			longest := time.Duration(0)
			for b.Loop() {
				began := time.Now()
				c.trial(request("trial"))
				longest = max(longest, time.Since(began))
				c.Review(b.Context(), DryRun{Request: request("trial"), Count: 100})
			}
			b.ReportMetric(float64(longest.Microseconds()), "locked-max-µs")
		})
	}
}
