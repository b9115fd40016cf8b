package cache

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var placementSeconds = promauto.With(metrics.Registry).NewHistogram(prometheus.HistogramOpts{
	Name:    "vdi_hub_placement_decision_seconds",
	Help:    "How long a placement decision took, snapshot included.",
	Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
})

// scraped is the process's cache, which the metric reports.
var scraped atomic.Pointer[Cache]

var _ = promauto.With(metrics.Registry).NewGaugeFunc(prometheus.GaugeOpts{
	Name: "vdi_hub_failover_rate_limited_sessions",
	Help: "Sessions that wait for the failover rate limit to be rescheduled.",
}, func() float64 {
	c := scraped.Load()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(c.rateLimit.WaitingSessions(c.clock.Now()))
})
