package link

import (
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var (
	metricConnections = metrics.NewGauge("vdi_hub_link_connections",
		"Agents that are connected and admitted.")
	metricDenied = metrics.NewCounterVec("vdi_hub_link_denied_total",
		"Calls that were refused, and streams that were ended for the same reason, by call and reason.", "call", "reason")
	metricHandshakes = metrics.NewCounterVec("vdi_hub_link_handshakes_total",
		"TLS handshakes by outcome: Member, Unauthenticated (no agent's certificate), or why they failed; Yielded: aborted for a newer one.", "outcome")
	metricLimited = metrics.NewCounterVec("vdi_hub_link_limited_total",
		"Handshakes and calls refused or ended, and messages read later, since there were too many or they took too long, by limit.", "limit")
	metricPanics = metrics.NewCounterVec("vdi_hub_link_panics_total",
		"Calls and streams that ended in a panic, a bug of the hub, by call.", "call")
	metricOrders = metrics.NewCounterVec("vdi_hub_link_orders_sent_total",
		"Orders sent to agents, by kind.", "kind")
	metricResults = metrics.NewCounterVec("vdi_hub_link_results_total",
		"Results of orders, by code and reason.", "code", "reason")
	metricReports = metrics.NewCounter("vdi_hub_link_reports_received_total",
		"Statuses of assignments received, inventories included.")
	metricMalformed = metrics.NewCounter("vdi_hub_link_malformed_items_total",
		"Items of agents' messages that were malformed and skipped.")
	metricMismatches = metrics.NewCounterVec("vdi_hub_link_digest_mismatches_total",
		"Renewals whose digests differed from the hub's, by set.", "set")
	metricResyncs = metrics.NewCounterVec("vdi_hub_link_resyncs_total",
		"Full inventories requested of connected agents, by the set whose digest differed twice in a row.", "reason")
	metricUnacknowledged = metrics.NewHistogram("vdi_hub_link_unacknowledged_age_seconds",
		"Age of each connection's oldest unacknowledged batch of orders, observed twelve times within the timeout.",
		[]float64{0.1, 0.5, 1, 5, 15, 30, 60})
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
