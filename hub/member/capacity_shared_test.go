package member

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
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

func TestTemplatesWithTheSameNodesShareTheirBuckets(t *testing.T) {
	g := NewWithT(t)
	c := capacityFromWire(&fleetv1.CapacityReport{Templates: []*fleetv1.TemplateCapacity{
		{Name: "a", Buckets: wireBuckets(0, 1000)}, {Name: "b", Buckets: wireBuckets(0, 1000)},
		{Name: "c", Buckets: wireBuckets(0, 2000)}, {Name: "d", Buckets: wireBuckets(0)}, {Name: "e"},
	}})
	of := func(name string) []placement.Bucket { return c.Templates[placement.TemplateKey{Name: name}].Buckets }
	g.Expect(&of("a")[0]).To(BeIdenticalTo(&of("b")[0]))
	g.Expect(of("b")).To(Equal([]placement.Bucket{
		{Nodes: 1, Free: placement.Resources{"cpu": 64000, "memory": 1 << 38, "pods": 110}},
		{Nodes: 2, Free: placement.Resources{"cpu": 63000, "memory": 1 << 38, "pods": 110}},
	}))
	g.Expect(of("c")[1].Free["cpu"]).To(BeEquivalentTo(62000))
	g.Expect(of("d")).To(HaveLen(1))
	g.Expect(of("e")).To(BeEmpty())
}

// BenchmarkCapacityReport reads the report of a member with 100 templates that may use all nodes.
func BenchmarkCapacityReport(b *testing.B) {
	report := &fleetv1.CapacityReport{}
	for i := range 100 {
		report.Templates = append(report.Templates, &fleetv1.TemplateCapacity{Name: fmt.Sprint(i), Available: true, Buckets: wireBuckets(0, 1000, 2000, 3000, 4000)})
	}
	b.ReportAllocs()
	for b.Loop() {
		capacityFromWire(report)
	}
}
