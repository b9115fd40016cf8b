package fleet

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	placementSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "vdi_hub_placement_decision_seconds",
		Help:    "How long a placement decision took, snapshot included.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
	})
	placementResults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_order_results_total",
		Help: "What became of orders to members.",
	}, []string{"code"})
	membersByHealth = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "vdi_hub_members",
		Help: "Members of the fleet by health.",
	}, []string{"health"})
)

func init() {
	metrics.Registry.MustRegister(placementSeconds, placementResults, membersByHealth)
}

// gauge counts the members by health.
func (f *Fleet) gauge() {
	counts := map[Health]int{HealthUnknown: 0, HealthNeverConnected: 0, HealthReady: 0, HealthSuspect: 0, HealthUnreachable: 0}
	f.mu.Lock()
	for _, m := range f.members {
		h, _ := judge(f.timings, m.signs, f.clock.Now())
		counts[h]++
	}
	f.mu.Unlock()
	for h, n := range counts {
		membersByHealth.WithLabelValues(string(h)).Set(float64(n))
	}
}
