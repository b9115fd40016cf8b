package member

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestCapacityAndUseAreMeasuredByRegion(t *testing.T) {
	x := newFixture(t)
	_ = x.SetTemplates(t.Context(), &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{
		{Name: "browser", Revision: "r1"}, {Name: "browser", Revision: "old"},
	}}, map[string]string{"browser": "r1"})
	x.register("eu-a", "uid-eu-a")
	x.register("eu-b", "uid-eu-b")
	x.register("us", "uid-us", func(mc *v1alpha1.MemberCluster) {
		mc.Spec.Region, mc.Spec.Scheduling = "us", v1alpha1.SchedulingCordoned
	})
	x.register("new", "uid-new")
	a, _ := x.connect("uid-eu-a", "i1")
	b, _ := x.connect("uid-eu-b", "i1")
	us, _ := x.connect("uid-us", "i1")
	a.Capacity(growing(capacityReport(2, 10), 26, &fleetv1.NodeGroupStatus{Name: "desktops", Growable: 26, State: "Available"}))
	b.Capacity(capacityReport(2, 5))
	report := capacityReport(2, 7)
	report.Templates = append(report.Templates, &fleetv1.TemplateCapacity{Name: "browser", Revision: "old", Available: true, Slots: 99})
	us.Capacity(report)
	x.Observe(onHub("s1", 1, "uid-eu-a"), false)
	x.Observe(onHub("s2", 1, "uid-eu-a"), false)
	x.Observe(onHub("s3", 2, "uid-eu-b", "uid-eu-a"), false)

	want := []string{
		"vdi_hub_member_nodes{member=eu-a,region=eu} 10",
		"vdi_hub_member_nodes{member=eu-b,region=eu} 5",
		"vdi_hub_member_nodes{member=us,region=us} 7",
		"vdi_hub_member_releasing_sessions{member=eu-a,region=eu} 1",
		"vdi_hub_member_releasing_sessions{member=eu-b,region=eu} 0",
		"vdi_hub_member_releasing_sessions{member=new,region=eu} 0",
		"vdi_hub_member_releasing_sessions{member=us,region=us} 0",
		"vdi_hub_member_sessions{member=eu-a,region=eu} 2",
		"vdi_hub_member_sessions{member=eu-b,region=eu} 1",
		"vdi_hub_member_sessions{member=new,region=eu} 0",
		"vdi_hub_member_sessions{member=us,region=us} 0",
		"vdi_hub_template_growable_slots{region=eu,template=browser} 26",
		"vdi_hub_template_slots{region=eu,template=browser} 15",
		"vdi_hub_template_slots{region=us,template=browser} 0",
	}
	if diff := cmp.Diff(want, x.collected("vdi_hub_member_nodes", "vdi_hub_member_releasing", "vdi_hub_member_sessions", "vdi_hub_template_")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// A scrape must not delay renewals, which need the fleet's lock, however slowly its series are taken.
func TestMetricsAreMadeWithoutTheFleetsLock(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	stream, _ := x.connect("uid-eu", "i1")
	stream.Capacity(capacityReport(2, 10))
	collector, series := &memberCollector{}, make(chan prometheus.Metric)
	collector.fleet.Store(x.Fleet)
	go func() {
		collector.Collect(series)
		close(series)
	}()
	for range series {
		x.Eventually(x.mu.TryLock).Should(BeTrue())
		x.mu.Unlock()
	}
}

// collected returns the series of this fleet's gauges whose names begin with one of names.
func (x *fixture) collected(names ...string) []string {
	collector := &memberCollector{}
	collector.fleet.Store(x.Fleet)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	x.Expect(err).NotTo(HaveOccurred())
	var series []string
	for _, family := range families {
		for _, name := range names {
			if !strings.HasPrefix(family.GetName(), name) {
				continue
			}
			for _, metric := range family.GetMetric() {
				var labels []string
				for _, pair := range metric.GetLabel() {
					labels = append(labels, pair.GetName()+"="+pair.GetValue())
				}
				series = append(series, fmt.Sprintf("%s{%s} %v", family.GetName(), strings.Join(labels, ","), metric.GetGauge().GetValue()))
			}
		}
	}
	return series
}
