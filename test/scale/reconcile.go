package main

import (
	"context"
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/scrape"
)

// sessionController is the name of the agents' local reconciler in metrics.
const sessionController = "session"

// In calm, calmSessions sessions of a member lose a child, one each calmPause.
const (
	calmSessions = 200
	calmPause    = 50 * time.Millisecond
)

// reconciles prints how long the agents' local reconciles took in the burst and how
// many are queued, from the agents' metrics.
func (m *measurement) reconciles(ctx context.Context) error {
	fmt.Printf("\nlocal reconciles in the burst, from the agents' metrics\n")
	for _, member := range m.fleet.Members {
		h, depth, err := reconcilesOf(ctx, member)
		if err != nil {
			return err
		}
		printReconciles(member.Name, h, nil)
		fmt.Printf("  %-12s %.0f wait in the queue now\n", "", depth)
	}
	return nil
}

// calm prints how long they take when the machine is not saturated: the Services of
// sessions are deleted at a constant rate, and recreated.
func (m *measurement) calm(ctx context.Context) error {
	member := m.fleet.Members[0]
	services := member.ControlPlane.Client.CoreV1().Services(namespace)
	list, err := services.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy, Limit: calmSessions})
	if err != nil {
		return err
	}
	before, _, err := reconcilesOf(ctx, member)
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := services.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := pause(ctx, calmPause); err != nil {
			return err
		}
	}
	after, _, err := reconcilesOf(ctx, member)
	if err != nil {
		return err
	}
	fmt.Printf("\nlocal reconciles while %d Services are deleted by hand and recreated, 20 a second\n", len(list.Items))
	printReconciles(member.Name, after, before)
	return nil
}

// reconcilesOf returns the histogram of a member's local reconciles since its agent
// started, and how many are queued.
func reconcilesOf(ctx context.Context, member *harness.Member) (*dto.Histogram, float64, error) {
	text, err := member.Metrics(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the metrics of %s: %w", member.Name, err)
	}
	values, err := scrape.Parse(text)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the metrics of %s: %w", member.Name, err)
	}
	h := values.Histogram("controller_runtime_reconcile_time_seconds", "controller", sessionController)
	if h == nil {
		return nil, 0, fmt.Errorf("the agent of %s reports nothing of its reconciles", member.Name)
	}
	return h, values.Gauge("workqueue_depth", "name", sessionController), nil
}

func printReconciles(member string, h, before *dto.Histogram) {
	count, sum := h.GetSampleCount()-before.GetSampleCount(), h.GetSampleSum()-before.GetSampleSum()
	fmt.Printf("  %-12s %6d reconciles: p50 %s, p99 %s, mean %s\n", member, count,
		milliseconds(scrape.Quantile(h, before, 0.5)), milliseconds(scrape.Quantile(h, before, 0.99)), milliseconds(sum/float64(count)))
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }
