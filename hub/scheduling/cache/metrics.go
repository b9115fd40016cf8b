package cache

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var placementSeconds = metrics.NewHistogram("vdi_hub_placement_decision_seconds",
	"How long a placement decision took, snapshot included.", prometheus.ExponentialBuckets(0.00001, 2, 16))

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
