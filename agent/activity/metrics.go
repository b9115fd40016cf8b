package activity

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	silent = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_activity_unknown",
		Help: "Desktops whose activity probes fail, so that their idle timeout is not enforced.",
	})

	watched = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_activity_watched",
		Help: "Desktops that are probed for user activity.",
	})

	answers = promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{
		Name:    "vdi_agent_activity_answer_seconds",
		Help:    "Duration of activity probes, by result: known or unknown.",
		Buckets: []float64{0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 3},
	}, []string{"result"})
)
