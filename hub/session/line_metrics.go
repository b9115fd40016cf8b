package session

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	waitingSessions = prometheus.NewDesc("vdi_hub_waiting_sessions",
		"Sessions that wait for a place, by the reason of their condition Scheduled.", []string{"reason"}, nil)
	waitingClasses = prometheus.NewDesc("vdi_hub_waiting_classes",
		"Different questions that the sessions that wait ask of the fleet.", nil, nil)
	waitingOldest = prometheus.NewDesc("vdi_hub_waiting_oldest_seconds",
		"For how long the session has waited for a place that has waited longest; 0: none waits.", nil, nil)
	queueDepth = prometheus.NewDesc("vdi_hub_session_queue_depth",
		"Sessions in the queue of the hub's workers: those that wait for a place (waiting), and the others (settled).", []string{"kind"}, nil)
	failoverPending = prometheus.NewDesc("vdi_hub_failover_pending_sessions",
		"Sessions that are to run and whose member is lost: they wait for their time, for capacity, for the member, or for an operator's declaration.", nil, nil)
	wakeUps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_session_wakeups_total",
		Help: "Pending sessions that were requeued by an event that may help them: capacity, member, cap, policy, template, home; or to update what they wait for (look).",
	}, []string{"event"})
	lineMetrics = &lineCollector{}
)

// lineCollector tells of who waits, and of the queue, as they are when it is
// asked.
type lineCollector struct {
	reconciler atomic.Pointer[Reconciler]
}

func (c *lineCollector) of(r *Reconciler) { c.reconciler.Store(r) }

// Describe sends what may be collected (prometheus.Collector).
func (c *lineCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingSessions, waitingClasses, waitingOldest, queueDepth, failoverPending} {
		out <- d
	}
}

// Collect sends the series (prometheus.Collector).
func (c *lineCollector) Collect(out chan<- prometheus.Metric) {
	r := c.reconciler.Load()
	if r == nil {
		return
	}
	reasons, classes, oldest := r.waiting().count()
	total := 0
	for reason, n := range reasons {
		total += n
		out <- prometheus.MustNewConstMetric(waitingSessions, prometheus.GaugeValue, float64(n), reason)
	}
	age := 0.0
	if total > 0 {
		age = max(0, r.Clock.Since(oldest).Seconds())
	}
	out <- prometheus.MustNewConstMetric(waitingOldest, prometheus.GaugeValue, age)
	out <- prometheus.MustNewConstMetric(waitingClasses, prometheus.GaugeValue, float64(classes))
	out <- prometheus.MustNewConstMetric(failoverPending, prometheus.GaugeValue, float64(r.memory.countLost()))
	settled, waits := r.turns().depth()
	out <- prometheus.MustNewConstMetric(queueDepth, prometheus.GaugeValue, float64(settled), "settled")
	out <- prometheus.MustNewConstMetric(queueDepth, prometheus.GaugeValue, float64(waits), "waiting")
}
