package identity

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	metricRotations = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_link_certificate_rotations_total",
		Help: "Attempts to rotate the agent's certificate, by outcome.",
	}, []string{"outcome"})
	metricEnrollments = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_link_enrollments_total",
		Help: "Attempts to join the fleet with a token, by outcome.",
	}, []string{"outcome"})
	metricJoinNeeded = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_link_join_needed",
		Help: "1 while the hub accepts none of the agent's certificates, or it has none: join the member again.",
	})
)

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "succeeded"
}
