package assignment

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	metricPending = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_assignment_orders_pending",
		Help: "Sessions with an order that is not carried out yet, including stops that are not confirmed.",
	})
	metricRefused = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_assignment_refused_total",
		Help: "Assignments that were refused, by reason.",
	}, []string{"reason"})
	metricWrites = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_assignment_writes_total",
		Help: "Writes of SessionAssignments to the member's API server, by verb.",
	}, []string{"verb"})
	metricSecretWrites = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_assignment_secret_writes_total",
		Help: "Writes to the member's API server of Secrets that came with assignments, by verb.",
	}, []string{"verb"})
)
