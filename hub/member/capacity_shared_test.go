package member

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// wireBuckets are groups of nodes with so many free units less of CPU.
func wireBuckets(used ...int64) []*fleetv1.Bucket {
	var out []*fleetv1.Bucket
	for i, n := range used {
		out = append(out, &fleetv1.Bucket{Nodes: int32(i + 1), Free: map[string]int64{"cpu": 64000 - n, "memory": 1 << 38, "pods": 110}}) //nolint:gosec // small
	}
	return out
}

func TestTemplatesShareTheBucketsThatTheyReferTo(t *testing.T) {
	g := NewWithT(t)
	key := func(name string) placement.TemplateKey { return placement.TemplateKey{Name: name, Revision: "r"} }
	template := func(name, of string, used ...int64) *fleetv1.TemplateCapacity {
		c := &fleetv1.TemplateCapacity{Name: name, Revision: "r", Available: true, Buckets: wireBuckets(used...)}
		if of != "" {
			c.BucketsOf = convert.TemplateRef(of, "r")
		}
		return c
	}
	requested := templateKeys{key("b"): {}, key("c"): {}, key("d"): {}}
	var was reportedCapacity
	report := func(r *fleetv1.CapacityReport) func(name string) []placement.Bucket {
		result, err := was.apply(r, requested)
		g.Expect(err).NotTo(HaveOccurred())
		was = reportedCapacity{fresh: true, capacity: result.capacity}
		return func(name string) []placement.Bucket { return was.capacity.Templates[key(name)].Buckets }
	}

	// The hub no longer requests a, which the agent still evaluates.
	of := report(&fleetv1.CapacityReport{Sequence: 1, Templates: []*fleetv1.TemplateCapacity{
		template("a", "", 0, 1000), template("b", "a"), template("c", "", 0), template("d", "gone"),
	}})
	g.Expect(of("b")).To(Equal([]placement.Bucket{
		{Nodes: 1, Free: placement.Resources{"cpu": 64000, "memory": 1 << 38, "pods": 110}.Amounts()},
		{Nodes: 2, Free: placement.Resources{"cpu": 63000, "memory": 1 << 38, "pods": 110}.Amounts()},
	}))
	g.Expect(of("c")).To(HaveLen(1))
	g.Expect(of("d")).To(BeEmpty(), "it refers to a template that was not reported")

	of = report(&fleetv1.CapacityReport{Sequence: 2, BasedOn: 1, Templates: []*fleetv1.TemplateCapacity{template("b", "a")}})
	g.Expect(of("b")).To(HaveLen(2), "the buckets of a have not changed")
	of = report(&fleetv1.CapacityReport{Sequence: 3, BasedOn: 2, Templates: []*fleetv1.TemplateCapacity{template("a", "", 0, 1000, 2000)}})
	g.Expect(of("b")).To(HaveLen(3), "the buckets of a have changed")
	of = report(&fleetv1.CapacityReport{Sequence: 4, BasedOn: 3, Templates: []*fleetv1.TemplateCapacity{template("b", "", 0), template("d", "b")}})
	g.Expect(&of("d")[0]).To(BeIdenticalTo(&of("b")[0]))
	of = report(&fleetv1.CapacityReport{Sequence: 5, Templates: []*fleetv1.TemplateCapacity{template("b", "a"), template("c", "b"), template("d", "d")}})
	for _, name := range []string{"b", "c", "d"} {
		g.Expect(of(name)).To(BeEmpty(), name)
	}
}

func TestTemplatesShareTheGrowthOfThoseThatTheyReferTo(t *testing.T) {
	g := NewWithT(t)
	key := func(name string) placement.TemplateKey { return placement.TemplateKey{Name: name, Revision: "r"} }
	growing := func(name, of string, growable ...*fleetv1.Bucket) *fleetv1.TemplateCapacity {
		for _, b := range growable {
			b.NodeGroup = "desktops"
		}
		c := &fleetv1.TemplateCapacity{Name: name, Revision: "r", Available: true, Growable: growable}
		if of != "" {
			c.BucketsOf = convert.TemplateRef(of, "r")
		}
		return c
	}
	requested := templateKeys{key("b"): {}, key("c"): {}}
	var was reportedCapacity
	report := func(r *fleetv1.CapacityReport) func(name string) *placement.Growth {
		result, err := was.apply(r, requested)
		g.Expect(err).NotTo(HaveOccurred())
		was = reportedCapacity{fresh: true, capacity: result.capacity}
		return func(name string) *placement.Growth { return was.capacity.Templates[key(name)].Growth }
	}

	// The hub no longer requests a, which the agent still evaluates.
	of := report(&fleetv1.CapacityReport{Sequence: 1, Templates: []*fleetv1.TemplateCapacity{
		growing("a", "", wireBuckets(0)...), growing("b", "a"), growing("c", "gone"),
	}})
	g.Expect(*of("b")).To(Equal(placement.Growth{Growable: []placement.NodeGroupBucket{{
		Bucket:    placement.Bucket{Nodes: 1, Free: placement.Resources{"cpu": 64000, "memory": 1 << 38, "pods": 110}.Amounts()},
		NodeGroup: "desktops",
	}}}))
	g.Expect(of("c")).To(BeNil(), "it refers to a template that was not reported")

	of = report(&fleetv1.CapacityReport{Sequence: 2, BasedOn: 1, Templates: []*fleetv1.TemplateCapacity{growing("b", "a")}})
	g.Expect(of("b").Growable).To(HaveLen(1), "the nodes of a have not changed")
	of = report(&fleetv1.CapacityReport{Sequence: 3, BasedOn: 2, Templates: []*fleetv1.TemplateCapacity{growing("a", "", wireBuckets(0, 1000)...)}})
	g.Expect(of("b").Growable).To(HaveLen(2), "the nodes of a have changed")
	of = report(&fleetv1.CapacityReport{Sequence: 4, BasedOn: 3, Templates: []*fleetv1.TemplateCapacity{growing("a", "")}})
	g.Expect(of("b")).To(BeNil(), "a can't grow any more")
}

func TestNodeGroupsOfAReport(t *testing.T) {
	g := NewWithT(t)
	groups := []*fleetv1.NodeGroupStatus{
		{Name: "desktops", Nodes: 12, Provisioning: 2, Growable: 26, MaxNodes: 40, State: "Available", ProvisioningTime: durationpb.New(95 * time.Second)},
		{Name: "gpu", Nodes: 4, State: "Exhausted", Reason: "InsufficientCapacity", Message: "quota", RetryTime: timestamppb.New(time.Unix(3600, 0)), Growable: -1},
	}
	want := []placement.NodeGroup{
		{Name: "desktops", Nodes: 12, Provisioning: 2, Growable: 26, MaxNodes: 40, State: v1alpha1.NodeGroupAvailable, ProvisioningTime: 95 * time.Second},
		{Name: "gpu", Nodes: 4, State: v1alpha1.NodeGroupExhausted, Reason: "InsufficientCapacity", Message: "quota", RetryTime: time.Unix(3600, 0).UTC()},
	}
	m := &member{}
	m.takeReport(&fleetv1.CapacityReport{Sequence: 1, NodeGroups: groups, Templates: []*fleetv1.TemplateCapacity{capacityOf("a", 1)}})
	g.Expect(m.capacity.NodeGroups).To(Equal(want))
	m.takeReport(&fleetv1.CapacityReport{Sequence: 2, BasedOn: 1, NodeGroups: groups[:1]})
	g.Expect(m.capacity.NodeGroups).To(Equal(want[:1]), "a report of changes has all groups")
	g.Expect(m.capacity.Templates).To(HaveLen(1))
	m.takeReport(&fleetv1.CapacityReport{Sequence: 3, Templates: []*fleetv1.TemplateCapacity{capacityOf("a", 1)}})
	g.Expect(m.capacity.NodeGroups).To(BeNil())
	g.Expect(m.capacity.Templates[placement.TemplateKey{Name: "a", Revision: "r"}].Growth).To(BeNil())
}

// BenchmarkCapacityReport reads the report of a member with 100 templates that may use all nodes.
func BenchmarkCapacityReport(b *testing.B) {
	report := &fleetv1.CapacityReport{}
	for i := range 100 {
		t := &fleetv1.TemplateCapacity{Name: fmt.Sprint(i), Revision: "r", Available: true, Buckets: wireBuckets(0, 1000, 2000, 3000, 4000)}
		if i > 0 {
			t.Buckets, t.BucketsOf = nil, convert.TemplateRef("0", "r")
		}
		report.Templates = append(report.Templates, t)
	}
	b.ReportMetric(float64(proto.Size(report)), "bytes/report")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (reportedCapacity{}).apply(report, nil); err != nil {
			b.Fatal(err)
		}
	}
}
