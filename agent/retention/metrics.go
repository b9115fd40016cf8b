package retention

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var deleted = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "vdi_agent_homes_deleted_total",
	Help: "Homes that were deleted because nobody had used them for as long as they were to be kept.",
})

func init() {
	metrics.Registry.MustRegister(deleted)
}
