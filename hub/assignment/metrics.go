package assignment

import (
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var (
	orphans = metrics.NewCounter("vdi_hub_orphaned_assignments_total",
		"Assignments in members that are orphans: the hub has no session for them, or no proof that it placed it there. They continue.")
	unprovenReports = metrics.NewCounter("vdi_hub_unproven_reports_total",
		"Reports with the name of a session's assignment that were ignored, since they have another UID or lack the proof that their epoch was assigned to the member.")
)
