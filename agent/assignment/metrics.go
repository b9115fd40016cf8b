package assignment

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

var (
	metricPending = metrics.NewGauge("vdi_agent_assignment_orders_pending",
		"Sessions with an order that is not carried out yet, including stops that are not confirmed.")
	metricRefused = metrics.NewCounterVec("vdi_agent_assignment_refused_total",
		"Assignments that were refused, by reason.", "reason")
	metricWrites = metrics.NewCounterVec("vdi_agent_assignment_writes_total",
		"Writes of SessionAssignments to the member's API server, by verb.", "verb")
	metricSecretWrites = metrics.NewCounterVec("vdi_agent_assignment_secret_writes_total",
		"Writes to the member's API server of Secrets that came with assignments, by verb.", "verb")
)
