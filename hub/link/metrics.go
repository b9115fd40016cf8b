package link

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

var (
	registered = promauto.With(metrics.Registry)

	metricConnections = registered.NewGauge(prometheus.GaugeOpts{
		Name: "vdi_hub_link_connections",
		Help: "Agents that are connected and admitted.",
	})
	metricDenied = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_denied_total",
		Help: "Calls that were refused, and streams that were ended for the same reason, by call and reason.",
	}, []string{"call", "reason"})
	metricHandshakes = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_handshakes_total",
		Help: "TLS handshakes by outcome: Member, Unauthenticated (no agent's certificate), or why they failed; Yielded: aborted for a newer one.",
	}, []string{"outcome"})
	metricLimited = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_limited_total",
		Help: "Handshakes and calls refused or ended, and messages read later, since there were too many or they took too long, by limit.",
	}, []string{"limit"})
	metricPanics = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_panics_total",
		Help: "Calls and streams that ended in a panic, a bug of the hub, by call.",
	}, []string{"call"})
	metricOrders = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_orders_sent_total",
		Help: "Orders sent to agents, by kind.",
	}, []string{"kind"})
	metricResults = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_results_total",
		Help: "Results of orders, by code and reason.",
	}, []string{"code", "reason"})
	metricReports = registered.NewCounter(prometheus.CounterOpts{
		Name: "vdi_hub_link_reports_received_total",
		Help: "Statuses of assignments received, inventories included.",
	})
	metricMalformed = registered.NewCounter(prometheus.CounterOpts{
		Name: "vdi_hub_link_malformed_items_total",
		Help: "Items of agents' messages that were malformed and skipped.",
	})
	metricMismatches = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_digest_mismatches_total",
		Help: "Renewals whose digests differed from the hub's, by set.",
	}, []string{"set"})
	metricResyncs = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_resyncs_total",
		Help: "Full inventories requested of connected agents, by the set whose digest differed twice in a row.",
	}, []string{"reason"})
	metricUnacknowledged = registered.NewHistogram(prometheus.HistogramOpts{
		Name:    "vdi_hub_link_unacknowledged_age_seconds",
		Help:    "Age of each connection's oldest unacknowledged batch of orders, observed twelve times within the timeout.",
		Buckets: []float64{0.1, 0.5, 1, 5, 15, 30, 60},
	})
)

func countDenied(call string, err error) {
	metricDenied.WithLabelValues(call, responseTo(err).reason).Inc()
}

// knownReasons bounds the label, since agents send the reasons.
var knownReasons = map[string]bool{
	"":                                   true,
	v1alpha1.RefusedNamespaceNotAdmitted: true,
	v1alpha1.RefusedStaleEpoch:           true,
	v1alpha1.RefusedInvalid:              true,
	v1alpha1.RefusedNoCapacity:           true,
	v1alpha1.RefusedNotAllowed:           true,
}

func countResults(results []protocol.Result) {
	for _, r := range results {
		reason := r.Reason
		if !knownReasons[reason] {
			reason = "Other"
		}
		metricResults.WithLabelValues(string(r.Code), reason).Inc()
	}
}
