package exposure

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

// metricInForce has no labels, and so no value in a member that has no door.
var metricInForce = metrics.NewGaugeVec("vdi_agent_door_in_force",
	"1 if browsers reach desktops through the door, 0 while each desktop has an Ingress or HTTPRoute of its own. Missing in members without a door.")

func record(inForce bool) {
	value := 0.0
	if inForce {
		value = 1
	}
	metricInForce.WithLabelValues().Set(value)
}
