package fence

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

var (
	metricRemaining = metrics.NewGauge("vdi_agent_lease_remaining_seconds",
		"Remaining time of the lease under which fenced desktops may run; 0 if they may not.")
	metricLapses = metrics.NewCounter("vdi_agent_lease_lapses_total",
		"Lapses of the lease that stopped fenced desktops.")
	metricGuarded = metrics.NewGauge("vdi_agent_guarded_sessions",
		"Fenced sessions whose desktops a guard stops when the lease is over.")
)
