package member

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

var (
	memberSessions = prometheus.NewDesc("vdi_hub_member_sessions",
		"Sessions that are placed in the member.", []string{"member", "region"}, nil)
	memberReleasing = prometheus.NewDesc("vdi_hub_member_releasing_sessions",
		"Sessions that were given up in the member and whose stop there is not confirmed.", []string{"member", "region"}, nil)
	memberNodes = prometheus.NewDesc("vdi_hub_member_nodes",
		"Nodes of the member that take sessions, as its agent last reported.", []string{"member", "region"}, nil)
	templateSlots = prometheus.NewDesc("vdi_hub_template_slots",
		"Sessions of the template, as it stands and with its default resources, that members which are Ready and take new ones have room for yet by their last reports. One room may be counted for several templates.",
		[]string{"template", "region"}, nil)

	roomMetrics = []*prometheus.Desc{memberSessions, memberReleasing, memberNodes, templateSlots}
)

// slotsOf is the room for sessions of one template in the members of one region.
type slotsOf struct{ template, region string }

// collectRoom sends what the members hold and have room for. Room is summed by
// region, so that there are no series for each template in each member.
func (f *state) collectRoom(out chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.look()
	slots := map[slotsOf]int32{}
	for _, m := range f.members {
		gauge := func(desc *prometheus.Desc, value int32) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), m.name, m.spec.Region)
		}
		releasing := f.placed.releasing[m.uid]
		gauge(memberSessions, f.placed.count(m.uid)-releasing)
		gauge(memberReleasing, releasing)
		if m.capacity == nil {
			continue
		}
		gauge(memberNodes, m.capacity.Nodes)
		takes := m.spec.Scheduling == "" || m.spec.Scheduling == v1alpha1.SchedulingActive
		for key, n := range m.slots {
			if f.current[key.Name] != key.Revision {
				continue
			}
			if !takes || m.assess(f.timings, now).State != health.Ready {
				n = 0 // so that the series says that there is none, and does not end
			}
			slots[slotsOf{key.Name, m.spec.Region}] += n
		}
	}
	for key, n := range slots {
		out <- prometheus.MustNewConstMetric(templateSlots, prometheus.GaugeValue, float64(n), key.template, key.region)
	}
}
