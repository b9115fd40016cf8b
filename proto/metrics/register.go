package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// registered registers each new metric with those of controller-runtime, which the manager
// serves.
var registered = promauto.With(metrics.Registry)

// Register registers a collector.
func Register(c prometheus.Collector) { metrics.Registry.MustRegister(c) }

// NewGauge registers a gauge.
func NewGauge(name, help string) prometheus.Gauge {
	return registered.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// NewGaugeVec registers a gauge with labels.
func NewGaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return registered.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// NewGaugeFunc registers a gauge whose value is computed at each scrape.
func NewGaugeFunc(name, help string, value func() float64) prometheus.GaugeFunc {
	return registered.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// NewCounter registers a counter.
func NewCounter(name, help string) prometheus.Counter {
	return registered.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// NewCounterVec registers a counter with labels.
func NewCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return registered.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// NewHistogram registers a histogram with the upper bounds of its buckets.
func NewHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return registered.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// NewHistogramVec registers a histogram with the upper bounds of its buckets, and labels.
func NewHistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return registered.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
