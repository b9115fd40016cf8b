package main

import (
	"context"
	"fmt"
	"math"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// sessionController is the agents' local reconciler, as metrics name it.
const sessionController = "session"

// reconciles prints how long the agents' local reconciles took so far, and how
// many waited, from their own metrics.
func (m *measurement) reconciles(ctx context.Context) error {
	fmt.Printf("\nlocal reconciles, from the agents' metrics\n")
	for _, member := range m.fleet.Members {
		families, err := scrape(ctx, member.Agent.MetricsAddr)
		if err != nil {
			return fmt.Errorf("reading the metrics of %s: %w", member.Name, err)
		}
		h := histogramOf(families["controller_runtime_reconcile_time_seconds"], "controller", sessionController)
		if h == nil {
			return fmt.Errorf("the agent of %s tells nothing of its reconciles", member.Name)
		}
		fmt.Printf("  %-12s %6d reconciles: p50 %s, p99 %s, mean %s; queue now %.0f\n", member.Name, h.GetSampleCount(),
			milliseconds(quantile(h, 0.5)), milliseconds(quantile(h, 0.99)), milliseconds(h.GetSampleSum()/float64(h.GetSampleCount())),
			gaugeOf(families["workqueue_depth"], "name", sessionController))
	}
	return nil
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }

func scrape(ctx context.Context, address string) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(resp.Body)
}

func withLabel(family *dto.MetricFamily, label, value string) []*dto.Metric {
	var out []*dto.Metric
	for _, metric := range family.GetMetric() {
		for _, l := range metric.GetLabel() {
			if l.GetName() == label && l.GetValue() == value {
				out = append(out, metric)
			}
		}
	}
	return out
}

func histogramOf(family *dto.MetricFamily, label, value string) *dto.Histogram {
	for _, metric := range withLabel(family, label, value) {
		return metric.GetHistogram()
	}
	return nil
}

func gaugeOf(family *dto.MetricFamily, label, value string) float64 {
	sum := 0.0
	for _, metric := range withLabel(family, label, value) {
		sum += metric.GetGauge().GetValue()
	}
	return sum
}

// quantile of a histogram, in between its buckets by a straight line, as
// Prometheus reckons it.
func quantile(h *dto.Histogram, q float64) float64 {
	rank := q * float64(h.GetSampleCount())
	below, lower := 0.0, 0.0
	for _, b := range h.GetBucket() {
		count, upper := float64(b.GetCumulativeCount()), b.GetUpperBound()
		if count >= rank {
			if math.IsInf(upper, 1) || count == below {
				return lower
			}
			return lower + (upper-lower)*(rank-below)/(count-below)
		}
		below, lower = count, upper
	}
	return lower
}
