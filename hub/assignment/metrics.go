package assignment

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	orphans = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "vdi_hub_orphaned_assignments_total",
		Help: "Assignments in members that are orphans: the hub has no session for them, or no proof that it placed it there. They continue.",
	})
	unprovenReports = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "vdi_hub_unproven_reports_total",
		Help: "Reports with the name of a session's assignment that were ignored, since they have another UID or lack the proof that their epoch was assigned to the member.",
	})
)
