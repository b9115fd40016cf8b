package identity

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

var (
	metricRotations = metrics.NewCounterVec("vdi_agent_link_certificate_rotations_total",
		"Attempts to rotate the agent's certificate, by outcome.", "outcome")
	metricEnrollments = metrics.NewCounterVec("vdi_agent_link_enrollments_total",
		"Attempts to join the fleet with a token, by outcome.", "outcome")
	metricJoinNeeded = metrics.NewGauge("vdi_agent_link_join_needed",
		"1 while the hub accepts none of the agent's certificates, or it has none: join the member again.")
)

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "succeeded"
}
