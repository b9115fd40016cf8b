package buffer

import (
	"github.com/prometheus/client_golang/prometheus"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var slotsMetric = metrics.NewGaugeVec("vdi_agent_buffer_slots",
	"Slots of buffers, by template and state: wanted by the hub now, held on nodes, or pending.", "template", "state")

// show sets the metrics of the buffers, and removes those of buffers that there were before.
func show(before, wanted map[string]int32, states []*fleetv1.BufferStatus) {
	for template := range before {
		if _, kept := wanted[template]; !kept {
			slotsMetric.DeletePartialMatch(prometheus.Labels{"template": template})
		}
	}
	for template, slots := range wanted {
		slotsMetric.WithLabelValues(template, "wanted").Set(float64(slots))
	}
	for _, s := range states {
		slotsMetric.WithLabelValues(s.GetTemplate(), "held").Set(float64(s.GetHeld()))
		slotsMetric.WithLabelValues(s.GetTemplate(), "pending").Set(float64(s.GetPending()))
	}
}
