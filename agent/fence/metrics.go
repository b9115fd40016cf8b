package fence

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	metricRemaining = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_lease_remaining_seconds",
		Help: "How long fenced desktops may run yet if the hub is not reachable again; 0: they may not.",
	})
	metricLapses = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "vdi_agent_lease_lapses_total",
		Help: "Times that the lease was over while fenced desktops were here, and they were stopped.",
	})
	metricGuarded = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_guarded_sessions",
		Help: "Fenced sessions whose desktops a guard stops when the lease is over.",
	})
)
