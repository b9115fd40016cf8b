package guard

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

var metricRejected = metrics.NewCounter("vdi_agent_guard_connections_rejected_total",
	"Connections for guards and gates that were rejected because of the limits, in total or of their address.")
