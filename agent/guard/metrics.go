package guard

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var metricRejected = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
	Name: "vdi_agent_guard_connections_rejected_total",
	Help: "Connections for guards and gates that were rejected because of the limits, in total or of their address.",
})
