package fence

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	metricRemaining = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_lease_remaining_seconds",
		Help: "Remaining time of the lease under which fenced desktops may run; 0 if they may not.",
	})
	metricLapses = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "vdi_agent_lease_lapses_total",
		Help: "Lapses of the lease that stopped fenced desktops.",
	})
	metricGuarded = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_guarded_sessions",
		Help: "Fenced sessions whose desktops a guard stops when the lease is over.",
	})
)
