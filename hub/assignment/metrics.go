package assignment

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	orphans = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "vdi_hub_orphaned_assignments_total",
		Help: "Assignments seen in members whose session the hub does not know, or does not know to have been given to them. They are left alone.",
	})
	foreignReports = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "vdi_hub_foreign_reports_total",
		Help: "Times that a member's report bore the name of a session's assignment, but not its UID or no proof that its epoch was given to the member, and did not count for the session.",
	})
)
