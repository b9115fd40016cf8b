package scenarios

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// hubUser is the user name of the hub in its API server's audit log.
const hubUser = harness.HubUser

// reportsMetric counts the reports that the hub received.
const reportsMetric = "vdi_hub_link_reports_received_total"

// counts are the reports that the hub received, and the statuses that it wrote, up to a time.
type counts struct {
	reports float64
	written int
}

func hubCounts(ctx context.Context, r *runner.Run) (t counts, err error) {
	for _, replica := range r.Fleet.Hub.Replicas {
		metrics, err := r.Fleet.Hub.Metrics(ctx, replica)
		if err != nil {
			return t, fmt.Errorf("counting reports: %w", err)
		}
		values, err := stage.Values(metrics, reportsMetric)
		if err != nil {
			return t, fmt.Errorf("counting reports: %w", err)
		}
		t.reports += values[0]
	}
	counts, err := harness.CountWrites(r.Fleet.Hub.ControlPlane.AuditLog(), harness.CountOptions{Users: []string{hubUser}})
	if err != nil {
		return t, err
	}
	for _, count := range counts {
		if count.Resource == "vdisessions/status" {
			t.written += count.Count
		}
	}
	return t, nil
}

// recordCounts records how many reports and status writes followed some changes. Of several
// changes in quick succession, only the newest is reported and written.
func recordCounts(ctx context.Context, r *runner.Run, before counts, changes int) error {
	now, err := hubCounts(ctx, r)
	if err != nil {
		return err
	}
	reports, written := int(now.reports-before.reports), now.written-before.written
	r.Record("of %d changes the hub received %d reports, and wrote %d statuses of sessions meanwhile, the workload's among them", changes, reports, written)
	if reports == 0 || written == 0 {
		return fmt.Errorf("%d changes, and the hub received %d reports and wrote %d statuses", changes, reports, written)
	}
	return nil
}

// writesByUser returns which user wrote how much to all API servers since a time.
func writesByUser(r *runner.Run, since time.Time) (string, error) {
	byUser, all := map[string]int{}, 0
	for _, cp := range r.ControlPlanes() {
		counts, err := harness.CountWrites(cp.AuditLog(), harness.CountOptions{Since: since, Events: true, Leases: true})
		if err != nil {
			return "", err
		}
		for _, count := range counts {
			byUser[count.User] += count.Count
			all += count.Count
		}
	}
	users := slices.SortedFunc(maps.Keys(byUser), func(a, b string) int { return byUser[b] - byUser[a] })
	perUser := make([]string, 0, len(users))
	for _, user := range users {
		perUser = append(perUser, fmt.Sprintf("%s %d", user, byUser[user]))
	}
	return fmt.Sprintf("%d writes: %s", all, strings.Join(perUser, ", ")), nil
}
