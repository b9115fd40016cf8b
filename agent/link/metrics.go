package link

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	metricConnected = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_link_connected",
		Help: "1 while the agent is connected and the hub has its inventory.",
	})
	metricConnects = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_link_connections_total",
		Help: "Connections to the hub that ended, by whether they had reached state Serving.",
	}, []string{"served"})
	metricRenewals = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_agent_link_renewals_total",
		Help: "Renewals of the lease, by gRPC code.",
	}, []string{"code"})
	metricOrders = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "vdi_agent_link_orders_received_total",
		Help: "Orders received from the hub.",
	})
	metricReports = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "vdi_agent_link_reports_sent_total",
		Help: "Reports of assignments sent, including inventories.",
	})
	metricDirty = promauto.With(metrics.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "vdi_agent_link_dirty_assignments",
		Help: "Assignments whose newest status was not sent yet.",
	})
)
