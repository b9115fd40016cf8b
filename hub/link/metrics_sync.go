package link

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	metricMismatches = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_digest_mismatches_total",
		Help: "Renewals whose digests differed from the hub's, by set.",
	}, []string{"set"})
	metricResyncs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_resyncs_total",
		Help: "Agents asked for all that they hold in mid-stream, by the set that differed twice in a row.",
	}, []string{"reason"})
	metricUnacknowledged = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "vdi_hub_link_unacknowledged_age_seconds",
		Help:    "Age of each connection's oldest batch of orders that is not acknowledged, looked at twelve times within the timeout.",
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 30, 60},
	})
)

func init() {
	metrics.Registry.MustRegister(metricMismatches, metricResyncs, metricUnacknowledged)
}
