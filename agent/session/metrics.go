package session

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// kindAssignment is the SessionAssignment itself, in metrics.
const kindAssignment = "SessionAssignment"

var (
	failures = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_session_failures_total",
		Help: "Attempts of sessions that failed permanently, by reason.",
	}, []string{"reason"})

	startTime = promauto.With(metrics.Registry).NewHistogram(prometheus.HistogramOpts{
		Name:    "vdi_agent_session_start_seconds",
		Help:    "Time from an assignment's creation until its desktop was first ready.",
		Buckets: []float64{0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600},
	})
)
