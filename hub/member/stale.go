package member

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// staleStatuses counts what promise 2 has dropped.
var staleStatuses = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "vdi_hub_link_stale_statuses_dropped_total",
	Help: "Statuses that were not applied: of an epoch that is over, or of a stream that is.",
}, []string{"reason"})

// unkept counts what agents have reported and the hub does not keep.
var (
	unkept = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_link_unknown_total",
		Help: "What agents reported of sessions or templates that the hub does not know, and that it does not keep: results, and templates of capacity reports.",
	}, []string{"kind"})
	unknownResults   = unkept.WithLabelValues("result")
	unaskedTemplates = unkept.WithLabelValues("template")
)

func init() { metrics.Registry.MustRegister(staleStatuses, unkept) }

// countStale counts the stale ones of some items; all of them are if the
// stream was not the member's any more.
func countStale(current bool, stale, items int) {
	switch {
	case !current:
		staleStatuses.WithLabelValues("stream").Add(float64(items))
	case stale > 0:
		staleStatuses.WithLabelValues("epoch").Add(float64(stale))
	}
}
