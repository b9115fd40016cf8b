package activity

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

var (
	silent = metrics.NewGauge("vdi_agent_activity_unknown",
		"Desktops whose activity probes fail, so that their idle timeout is not enforced.")

	watched = metrics.NewGauge("vdi_agent_activity_watched",
		"Desktops that are probed for user activity.")

	answers = metrics.NewHistogramVec("vdi_agent_activity_answer_seconds",
		"Duration of activity probes, by result: known or unknown.",
		[]float64{0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 3}, "result")
)
