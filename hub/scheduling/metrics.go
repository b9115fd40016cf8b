package scheduling

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

// Events that requeue pending sessions, by their labels in the metric.
const (
	EventCapacity = "capacity"
	EventMember   = "member"
	EventCap      = "cap"
	EventPolicy   = "policy"
	EventTemplate = "template"
	EventHome     = "home"
	EventDrain    = "drain"
	EventRecheck  = "recheck"
)

var (
	waitingSessions = prometheus.NewDesc("vdi_hub_waiting_sessions",
		"Sessions that wait to be placed, by the reason of their condition Scheduled.", []string{"reason"}, nil)
	waitingClasses = prometheus.NewDesc("vdi_hub_waiting_classes",
		"Distinct requests of the sessions that wait for capacity.", nil, nil)
	waitingOldest = prometheus.NewDesc("vdi_hub_waiting_oldest_seconds",
		"Longest time for which a session has waited to be placed; 0 if none waits.", nil, nil)
	queueDepth = prometheus.NewDesc("vdi_hub_session_queue_depth",
		"Sessions in the scheduler's queue (waiting), and in the queue of the controller of sessions (settled).", []string{"kind"}, nil)
	requeued = metrics.NewCounterVec("vdi_hub_session_requeues_total",
		"Pending sessions that were requeued, by the event that may help them: capacity, member, cap, policy, template, home, drain; or to update their reasons (recheck).", "event")
	collector = &schedulerCollector{}
)

func init() { metrics.Register(collector) }

// Requeued counts pending sessions that an event has requeued.
func Requeued(event string, sessions int) { requeued.WithLabelValues(event).Add(float64(sessions)) }

// schedulerCollector reports the waiting sessions at each scrape.
type schedulerCollector struct {
	of atomic.Pointer[Scheduler]
}

// Describe sends the descriptions (prometheus.Collector).
func (c *schedulerCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingSessions, waitingClasses, waitingOldest, queueDepth} {
		out <- d
	}
}

// Collect sends the series (prometheus.Collector).
func (c *schedulerCollector) Collect(out chan<- prometheus.Metric) {
	s := c.of.Load()
	if s == nil {
		return
	}
	reasons, oldest := s.Waiting()
	for reason, n := range reasons {
		out <- prometheus.MustNewConstMetric(waitingSessions, prometheus.GaugeValue, float64(n), reason)
	}
	age := 0.0
	if !oldest.IsZero() {
		age = max(0, s.Clock.Since(oldest).Seconds())
	}
	out <- prometheus.MustNewConstMetric(waitingOldest, prometheus.GaugeValue, age)
	s.mu.Lock()
	classes, depth, controller, settled := len(s.pending.classes), s.active.Len(), s.controller, 0
	s.mu.Unlock()
	if controller != nil {
		// Without the scheduler's lock, which is acquired under the queue's: the queue asks for Answered when an item is added.
		settled = controller.Len()
	}
	out <- prometheus.MustNewConstMetric(waitingClasses, prometheus.GaugeValue, float64(classes))
	out <- prometheus.MustNewConstMetric(queueDepth, prometheus.GaugeValue, float64(depth), "waiting")
	out <- prometheus.MustNewConstMetric(queueDepth, prometheus.GaugeValue, float64(settled), "settled")
}

// Waiting counts the waiting sessions by reason, and returns since when the first of them
// waits, zero if none does.
func (s *Scheduler) Waiting() (reasons map[string]int, oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reasons = map[string]int{}
	for _, e := range s.sessions {
		if e.reason == "" {
			continue
		}
		reasons[e.reason]++
		if oldest.IsZero() || e.rank.Since.Before(oldest) {
			oldest = e.rank.Since
		}
	}
	return reasons, oldest
}
