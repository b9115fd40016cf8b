package scrape

import (
	"fmt"
	"math"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Values are the metrics of one program at one time.
type Values map[string]*dto.MetricFamily

// Parse reads what Scrape returns.
func Parse(text string) (Values, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

// Histogram returns the histogram of that name with the label, and nil if there is none. An
// empty label is any.
func (v Values) Histogram(name, label, value string) *dto.Histogram {
	for _, metric := range v.labeled(name, label, value) {
		return metric.GetHistogram()
	}
	return nil
}

// Gauge returns the sum of the gauges of that name with the label.
func (v Values) Gauge(name, label, value string) (sum float64) {
	for _, metric := range v.labeled(name, label, value) {
		sum += metric.GetGauge().GetValue()
	}
	return sum
}

func (v Values) labeled(name, label, value string) []*dto.Metric {
	var out []*dto.Metric
	for _, metric := range v[name].GetMetric() {
		matches := label == ""
		for _, l := range metric.GetLabel() {
			matches = matches || l.GetName() == label && l.GetValue() == value
		}
		if matches {
			out = append(out, metric)
		}
	}
	return out
}

// Quantile returns a quantile of the observations since before, interpolated linearly
// within a bucket as Prometheus does. Before may be nil.
func Quantile(h, before *dto.Histogram, q float64) float64 {
	rank := q * float64(h.GetSampleCount()-before.GetSampleCount())
	below, lower := 0.0, 0.0
	for i, b := range h.GetBucket() {
		count, upper := float64(b.GetCumulativeCount()), b.GetUpperBound()
		if before != nil {
			count -= float64(before.GetBucket()[i].GetCumulativeCount())
		}
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
