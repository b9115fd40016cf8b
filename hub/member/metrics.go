package member

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var (
	placementResults = metrics.NewCounterVec("vdi_hub_order_results_total",
		"Results of orders to members, by code.", "code")
	memberMetrics = &memberCollector{}
)

func init() { metrics.Register(memberMetrics) }

var (
	membersByHealth = prometheus.NewDesc("vdi_hub_members",
		"Members of the fleet by health.", []string{"health"}, nil)
	membersLost = prometheus.NewDesc("vdi_hub_members_lost",
		"Lost members whose sessions are rescheduled as their failover modes permit, by reason.", []string{"reason"}, nil)
	failoverSlowed = prometheus.NewDesc("vdi_hub_failover_slowed",
		"1 while so many members are lost that sessions are rescheduled more slowly.", nil, nil)
	failoverCutOff = prometheus.NewDesc("vdi_hub_failover_cut_off",
		"1 while no member outside the hub's own cluster sends heartbeats, so that no session is rescheduled by time.", nil, nil)
	memberHealth = prometheus.NewDesc("vdi_hub_member_health",
		"1 for the member's state of health, 0 for the other states.", []string{"member", "state"}, nil)
	memberFlips = prometheus.NewDesc("vdi_hub_member_flips_total",
		"How often the member lost Ready since this hub leads.", []string{"member"}, nil)
	memberWithheld = prometheus.NewDesc("vdi_hub_member_withdrawals_stopped",
		"Sessions that the member runs and that the hub has no record of stopping, and does not stop since they are too many.", []string{"member"}, nil)
	memberLease = prometheus.NewDesc("vdi_hub_member_lease_remaining_seconds",
		"Remaining time of the lease that this hub last granted the member, from its receipt.", []string{"member"}, nil)
	memberExpiry = prometheus.NewDesc("vdi_hub_member_certificate_expiry_seconds",
		"When the certificate of the member's agent expires, in seconds since 1970.", []string{"member"}, nil)
)

// memberCollector reports the members of this process's fleet at each scrape.
type memberCollector struct {
	fleet atomic.Pointer[Fleet]
}

// Describe sends the descriptions of the metrics (prometheus.Collector).
func (c *memberCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		membersByHealth, membersLost, failoverSlowed, failoverCutOff, memberHealth, memberFlips, memberWithheld, memberLease, memberExpiry,
		memberSessions, memberReleasing, memberNodes, templateSlots, templateGrowable,
	} {
		out <- d
	}
}

// Collect sends one set of series per member (prometheus.Collector).
func (c *memberCollector) Collect(out chan<- prometheus.Metric) {
	f := c.fleet.Load()
	if f == nil {
		return
	}
	f.collectHealth(out)
	f.collectSessions(out)
	f.collectCapacity(out)
}

// memberState is what the metrics of a member show besides its sessions and capacity.
type memberState struct {
	name            string
	health          health.State
	flips, withheld int
	// lease is what is left of it, negative if it has none.
	lease   time.Duration
	expires time.Time
}

// states returns the states of the members, how many are lost for each reason, and the degradation of
// failover. The metrics are made without the lock: those of a thousand members take longer than the
// renewals that wait for it may.
func (f *state) states() (members []memberState, lost map[string]int, degraded failover.Degradation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	members, lost = make([]memberState, 0, len(f.members)), map[string]int{v1alpha1.ReasonMemberUnreachable: 0, v1alpha1.ReasonMemberFenced: 0}
	for _, m := range f.members {
		m.heartbeats.Update(f.timings, now)
		is := memberState{
			name: m.name, health: m.assess(f.timings, now).State, flips: m.heartbeats.LossesOfReady(), withheld: len(m.withdrawals.held),
			lease: -1, expires: m.expires,
		}
		switch {
		case m.fence.inEffect(now):
			lost[v1alpha1.ReasonMemberFenced]++
		case is.health == health.Unreachable:
			lost[v1alpha1.ReasonMemberUnreachable]++
		}
		if !m.granted.IsZero() {
			is.lease = max(0, f.timings.Failover.Lease-now.Sub(m.granted))
		}
		members = append(members, is)
	}
	return members, lost, f.degradation(now)
}

func (f *state) collectHealth(out chan<- prometheus.Metric) {
	members, lost, degraded := f.states()
	counts := map[health.State]int{}
	for i := range members {
		m := &members[i]
		counts[m.health]++
		for _, state := range health.States() {
			out <- prometheus.MustNewConstMetric(memberHealth, prometheus.GaugeValue, float64(count(state == m.health)), m.name, string(state))
		}
		out <- prometheus.MustNewConstMetric(memberFlips, prometheus.CounterValue, float64(m.flips), m.name)
		out <- prometheus.MustNewConstMetric(memberWithheld, prometheus.GaugeValue, float64(m.withheld), m.name)
		if m.lease >= 0 {
			out <- prometheus.MustNewConstMetric(memberLease, prometheus.GaugeValue, m.lease.Seconds(), m.name)
		}
		if !m.expires.IsZero() {
			out <- prometheus.MustNewConstMetric(memberExpiry, prometheus.GaugeValue, float64(m.expires.Unix()), m.name)
		}
	}
	for _, state := range health.States() {
		out <- prometheus.MustNewConstMetric(membersByHealth, prometheus.GaugeValue, float64(counts[state]), string(state))
	}
	for reason, n := range lost {
		out <- prometheus.MustNewConstMetric(membersLost, prometheus.GaugeValue, float64(n), reason)
	}
	out <- prometheus.MustNewConstMetric(failoverSlowed, prometheus.GaugeValue, float64(count(degraded.MassFailure)))
	out <- prometheus.MustNewConstMetric(failoverCutOff, prometheus.GaugeValue, float64(count(degraded.CutOff)))
}

var (
	memberSessions = prometheus.NewDesc("vdi_hub_member_sessions",
		"Sessions that are placed in the member.", []string{"member", "region"}, nil)
	memberReleasing = prometheus.NewDesc("vdi_hub_member_releasing_sessions",
		"Sessions that were released from the member and whose stop there is not confirmed.", []string{"member", "region"}, nil)
	memberNodes = prometheus.NewDesc("vdi_hub_member_nodes",
		"Nodes of the member that accept sessions, as its agent last reported.", []string{"member", "region"}, nil)
	templateSlots = prometheus.NewDesc("vdi_hub_template_slots",
		"Free capacity, in sessions of the template's current revision with its default resources, of the members that are Ready and accept new sessions, as they last reported. The same capacity may be counted for several templates.",
		[]string{"template", "region"}, nil)
	templateGrowable = prometheus.NewDesc("vdi_hub_template_growable_slots",
		"Capacity, in sessions of the template's current revision with its default resources, on nodes that the node groups of members may still add, as they last reported, of the members that are Ready and accept new sessions. Only regions with node groups have series. The same nodes may be counted for several templates.",
		[]string{"template", "region"}, nil)
)

// slotsOf is the capacity for sessions of one template in the members of one region.
type slotsOf struct{ template, region string }

// collectSessions sends how many sessions the members have.
func (f *state) collectSessions(out chan<- prometheus.Metric) {
	f.mu.Lock()
	members, regions := slices.Clone(f.ordered), make([]string, len(f.ordered))
	for i, m := range members {
		regions[i] = m.spec.Region
	}
	f.mu.Unlock()
	uids := make([]types.UID, len(members))
	for i, m := range members {
		uids[i] = m.uid
	}
	for i, of := range f.cache.Sessions(uids...) {
		m := members[i]
		out <- prometheus.MustNewConstMetric(memberSessions, prometheus.GaugeValue, float64(of.All-of.Releasing), m.name, regions[i])
		out <- prometheus.MustNewConstMetric(memberReleasing, prometheus.GaugeValue, float64(of.Releasing), m.name, regions[i])
	}
}

// collectCapacity sends the members' capacity. It is summed by region, so that there are no
// series for each template in each member.
func (f *state) collectCapacity(out chan<- prometheus.Metric) {
	reports, current := f.capacities()
	slots, growable := map[slotsOf]int32{}, map[slotsOf]int32{}
	for i := range reports {
		r := &reports[i]
		out <- prometheus.MustNewConstMetric(memberNodes, prometheus.GaugeValue, float64(r.capacity.Nodes), r.member, r.region)
		for key := range r.capacity.Templates {
			if current[key.Name] != key.Revision {
				continue
			}
			t := r.capacity.Templates[key]
			n, more := t.Slots, t.GrowableSlots
			if !r.accepts {
				n, more = 0, 0 // so that the series shows 0, and does not end
			}
			slots[slotsOf{key.Name, r.region}] += n
			if len(r.capacity.NodeGroups) > 0 {
				growable[slotsOf{key.Name, r.region}] += more
			}
		}
	}
	for key, n := range slots {
		out <- prometheus.MustNewConstMetric(templateSlots, prometheus.GaugeValue, float64(n), key.template, key.region)
	}
	for key, n := range growable {
		out <- prometheus.MustNewConstMetric(templateGrowable, prometheus.GaugeValue, float64(n), key.template, key.region)
	}
}

// memberCapacity is the capacity that a member reported last, for the metrics.
type memberCapacity struct {
	member, region string
	capacity       *placement.Capacity
	accepts        bool
}

// capacities returns the last reports of the members, which are not changed, and the current
// revisions of templates.
func (f *state) capacities() (reports []memberCapacity, current map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for _, m := range f.members {
		if m.capacity == nil {
			continue
		}
		schedulable := m.spec.Scheduling == "" || m.spec.Scheduling == v1alpha1.SchedulingActive
		reports = append(reports, memberCapacity{
			member: m.name, region: m.spec.Region, capacity: m.capacity,
			accepts: schedulable && m.assess(f.timings, now).State == health.Ready,
		})
	}
	return reports, f.current
}

// staleStatuses counts the reports dropped by G2.
var staleStatuses = metrics.NewCounterVec("vdi_hub_link_stale_statuses_dropped_total",
	"Statuses that were not applied, since their epoch or stream had ended, by reason.", "reason")

// droppedReports counts the reports that the hub does not keep.
var (
	droppedReports = metrics.NewCounterVec("vdi_hub_link_unknown_total",
		"Reports of sessions or templates that are unknown to the hub, which it does not keep: results, and templates of capacity reports.", "kind")
	unknownResults       = droppedReports.WithLabelValues("result")
	unrequestedTemplates = droppedReports.WithLabelValues("template")
)

// countStale counts stale items: all items if the stream is no longer the member's.
func countStale(current bool, stale, items int) {
	switch {
	case !current:
		staleStatuses.WithLabelValues("stream").Add(float64(items))
	case stale > 0:
		staleStatuses.WithLabelValues("epoch").Add(float64(stale))
	}
}
