package fence

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	metricRemaining = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_lease_remaining_seconds",
		Help: "How long fenced desktops may run yet if the hub is not reachable again; 0: they may not.",
	})
	metricLapses = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "vdi_agent_lease_lapses_total",
		Help: "Times that the lease was over while fenced desktops were here, and they were stopped.",
	})
	metricGuarded = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_guarded_sessions",
		Help: "Fenced sessions whose desktops a guard stops when the lease is over.",
	})
)

func init() { metrics.Registry.MustRegister(metricRemaining, metricLapses, metricGuarded) }
