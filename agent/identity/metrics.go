package identity

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Outcomes of enrolments and rotations.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
)

var (
	metricRotations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_link_certificate_rotations_total",
		Help: "Attempts to rotate the agent's certificate, by outcome.",
	}, []string{"outcome"})
	metricEnrolments = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_link_enrolments_total",
		Help: "Attempts to join the fleet with a token, by outcome.",
	}, []string{"outcome"})
	metricJoinNeeded = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_link_join_needed",
		Help: "1 while the hub accepts none of the agent's certificates, or it has none: join the member again.",
	})
)

func init() { metrics.Registry.MustRegister(metricRotations, metricEnrolments, metricJoinNeeded) }

func outcome(err error) string {
	if err != nil {
		return outcomeFailed
	}
	return outcomeSucceeded
}
