package link

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var (
	metricConnections = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "vdi_hub_link_connections",
		Help: "Agents that are connected and let in.",
	})
	metricDenied = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_denied_total",
		Help: "Connections and renewals that were not let in, by gRPC code.",
	}, []string{"call", "code"})
	metricOrders = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_orders_sent_total",
		Help: "Orders sent to agents, by kind.",
	}, []string{"kind"})
	metricResults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_results_total",
		Help: "Results of orders, by code and reason.",
	}, []string{"code", "reason"})
	metricReports = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "vdi_hub_link_reports_received_total",
		Help: "Statuses of assignments received, inventories included.",
	})
	metricMalformed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "vdi_hub_link_malformed_items_total",
		Help: "Items of agents that could not be read and were left out.",
	})
)

func init() {
	metrics.Registry.MustRegister(metricConnections, metricDenied, metricOrders, metricResults, metricReports, metricMalformed)
}

// knownReasons bounds the label: what an agent sends must not make series.
var knownReasons = map[string]bool{
	"":                                   true,
	v1alpha1.RefusedNamespaceNotAdmitted: true,
	v1alpha1.RefusedStaleEpoch:           true,
	v1alpha1.RefusedInvalid:              true,
	v1alpha1.RefusedNoRoom:               true,
}

func countResults(results []Result) {
	for _, r := range results {
		reason := r.Reason
		if !knownReasons[reason] {
			reason = "Other"
		}
		metricResults.WithLabelValues(string(r.Code), reason).Inc()
	}
}
