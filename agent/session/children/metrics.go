package children

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

var (
	writes = metrics.NewCounterVec("vdi_agent_session_writes_total",
		"Write requests of the session reconciler to the member's API server, by kind and verb.", "kind", "verb")

	rejections = metrics.NewCounterVec("vdi_agent_session_rejections_total",
		"Children that could not be created or repaired, by kind and reason.", "kind", "reason")
)

// CountWrite counts a write request.
func CountWrite(kind, verb string) {
	writes.WithLabelValues(kind, verb).Inc()
}
