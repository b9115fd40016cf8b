package fleet

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	placementSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "vdi_hub_placement_decision_seconds",
		Help:    "How long a placement decision took, snapshot included.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
	})
	placementResults = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_order_results_total",
		Help: "What became of orders to members.",
	}, []string{"code"})
	memberMetrics = &memberCollector{}
)

func init() {
	metrics.Registry.MustRegister(placementSeconds, placementResults, memberMetrics)
}

var (
	membersByHealth = prometheus.NewDesc("vdi_hub_members",
		"Members of the fleet by health.", []string{"health"}, nil)
	memberHealth = prometheus.NewDesc("vdi_hub_member_health",
		"1 for the state of health that the member is in, 0 for the others.", []string{"member", "state"}, nil)
	memberFlips = prometheus.NewDesc("vdi_hub_member_flips_total",
		"How often the member fell from Ready, since this hub leads.", []string{"member"}, nil)
	memberLease = prometheus.NewDesc("vdi_hub_member_lease_remaining_seconds",
		"How long the lease lasts yet that this hub last granted the member, reckoned from its receipt.", []string{"member"}, nil)
	memberExpiry = prometheus.NewDesc("vdi_hub_member_certificate_expiry_seconds",
		"When the certificate of the member's agent expires, in seconds since 1970.", []string{"member"}, nil)
)

// memberCollector tells of the members of this process's fleet as they are when
// it is asked: what remains of a lease is nobody's event, and a member that was
// removed has no series any more.
type memberCollector struct {
	fleet atomic.Pointer[Fleet]
}

func (c *memberCollector) of(f *Fleet) { c.fleet.Store(f) }

// Describe sends what may be collected (prometheus.Collector).
func (c *memberCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersByHealth, memberHealth, memberFlips, memberLease, memberExpiry} {
		out <- d
	}
}

// Collect sends one set of series a member (prometheus.Collector).
func (c *memberCollector) Collect(out chan<- prometheus.Metric) {
	f := c.fleet.Load()
	if f == nil {
		return
	}
	counts := map[Health]int{}
	for _, m := range f.measure() {
		counts[m.health]++
		for _, state := range healths {
			value := 0.0
			if state == m.health {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(memberHealth, prometheus.GaugeValue, value, m.name, string(state))
		}
		out <- prometheus.MustNewConstMetric(memberFlips, prometheus.CounterValue, float64(m.flips), m.name)
		if m.lease >= 0 {
			out <- prometheus.MustNewConstMetric(memberLease, prometheus.GaugeValue, m.lease, m.name)
		}
		if m.expiry > 0 {
			out <- prometheus.MustNewConstMetric(memberExpiry, prometheus.GaugeValue, float64(m.expiry), m.name)
		}
	}
	for _, state := range healths {
		out <- prometheus.MustNewConstMetric(membersByHealth, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
}

// measured is what is measured of a member.
type measured struct {
	name   string
	health Health
	flips  int
	// lease that remains, in seconds; less than none: this hub granted none.
	lease float64
	// expiry of the certificate, in seconds since 1970; 0: none.
	expiry int64
}

func (f *Fleet) measure() []measured {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.look()
	out := make([]measured, 0, len(f.members))
	for _, m := range f.members {
		m.heed(f.timings, now)
		one := measured{name: m.name, health: m.judge(f.timings, now).health, flips: m.fallen, lease: -1}
		if !m.granted.IsZero() {
			one.lease = max(0, (f.timings.Failover.Lease - now.Sub(m.granted)).Seconds())
		}
		if !m.expires.IsZero() {
			one.expiry = m.expires.Unix()
		}
		out = append(out, one)
	}
	return out
}
