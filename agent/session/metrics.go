package session

import (
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

// kindAssignment is the SessionAssignment itself, in metrics.
const kindAssignment = "SessionAssignment"

var (
	failures = metrics.NewCounterVec("vdi_agent_session_failures_total",
		"Attempts of sessions that failed permanently, by reason.", "reason")

	startTime = metrics.NewHistogram("vdi_agent_session_start_seconds",
		"Time from an assignment's creation until its desktop was first ready.", []float64{0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600})
)
