package cache

import (
	"sync/atomic"

	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

// The buckets are fine around a millisecond, which 99% of decisions should not exceed: a quantile is only
// as exact as its bucket.
var placementSeconds = metrics.NewHistogram("vdi_hub_placement_decision_seconds",
	"How long a placement decision took, snapshot included.", []float64{
		0.00005, 0.0001, 0.0002, 0.0003, 0.0004, 0.0005, 0.00075, 0.001, 0.00125, 0.0015, 0.002, 0.0025, 0.003, 0.004, 0.005,
		0.01, 0.025, 0.05, 0.1, 0.5,
	})

// scraped is the process's cache, which the metric reports.
var scraped atomic.Pointer[Cache]

var _ = metrics.NewGaugeFunc("vdi_hub_failover_rate_limited_sessions",
	"Sessions that wait for the failover rate limit to be rescheduled.", func() float64 {
		c := scraped.Load()
		if c == nil {
			return 0
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(c.rateLimit.WaitingSessions(c.clock.Now()))
	})
