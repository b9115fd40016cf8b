package link

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

var (
	metricConnected = metrics.NewGauge("vdi_agent_link_connected",
		"1 while the agent is connected and the hub has its inventory.")
	metricConnects = metrics.NewCounterVec("vdi_agent_link_connections_total",
		"Connections to the hub that ended, by whether they had reached state Serving.", "served")
	metricRenewals = metrics.NewCounterVec("vdi_agent_link_renewals_total",
		"Renewals of the lease, by gRPC code.", "code")
	metricOrders = metrics.NewCounter("vdi_agent_link_orders_received_total",
		"Orders received from the hub.")
	metricReports = metrics.NewCounter("vdi_agent_link_reports_sent_total",
		"Reports of assignments sent, including inventories.")
	metricDirty = metrics.NewGauge("vdi_agent_link_dirty_assignments",
		"Assignments whose newest status was not sent yet.")
)
