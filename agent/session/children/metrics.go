package children

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	writes = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_session_writes_total",
		Help: "Write requests of the session reconciler to the member's API server, by kind and verb.",
	}, []string{"kind", "verb"})

	rejections = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_session_rejections_total",
		Help: "Children that could not be created or repaired, by kind and reason.",
	}, []string{"kind", "reason"})
)

// CountWrite counts a write request.
func CountWrite(kind, verb string) {
	writes.WithLabelValues(kind, verb).Inc()
}
