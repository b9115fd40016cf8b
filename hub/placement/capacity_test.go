package placement

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

func TestCapacity(t *testing.T) {
	for _, tc := range []struct {
		name     string
		buckets  []Bucket
		requests Resources
		headroom int32
		sessions int32
		failover bool
		slots    int64 // 0 if it does not fit
		message  string
	}{
		{name: "counts by node and by the scarcest resource", buckets: []Bucket{{3, free(5000, 6).Amounts()}, {1, free(1000, 100).Amounts()}},
			requests: free(1000, 2), slots: 3*3 + 1},
		{name: "a thousand small nodes do not make a large one", buckets: []Bucket{{2000, free(1000, 32).Amounts()}}, requests: free(2000, 4),
			message: "lacks cpu (largest free on a node 1, requested 2)"},
		{name: "the free capacity is on different nodes", buckets: []Bucket{{1, free(8000, 1).Amounts()}, {1, free(500, 32).Amounts()}}, requests: free(1000, 4),
			message: "has no single node with capacity for all of it (the free capacity is on different nodes; request less, or add a node)"},
		{name: "every resource that is short is named", buckets: []Bucket{{5, free(900, 3).Amounts()}}, requests: free(2000, 4),
			message: "lacks cpu and memory (largest free on a node 500m, requested 2; largest free on a node 3Gi, requested 4Gi)"},
		{name: "a resource that the report does not name is not there", buckets: []Bucket{{5, free(8000, 32).Amounts()}}, requests: Resources{gpu: 1},
			message: "lacks nvidia.com/gpu (largest free on a node 0, requested 1)"},
		{name: "devices", buckets: []Bucket{{2, Resources{gpu: 4, corev1.ResourcePods: 10}.Amounts()}}, requests: Resources{gpu: 2}, slots: 4},
		{name: "pods limit what requests nothing", buckets: []Bucket{{2, Resources{corev1.ResourcePods: 3}.Amounts()}}, requests: nil, slots: 6},
		{name: "no pods, no capacity", buckets: []Bucket{{2, Resources{corev1.ResourceCPU: 8000}.Amounts()}}, requests: Resources{corev1.ResourceCPU: 1000},
			message: "lacks capacity for another Pod (largest free on a node 0, requested 1)"},
		{name: "no bucket at all", requests: Resources{corev1.ResourceCPU: 1000},
			message: "lacks cpu and capacity for another Pod (largest free on a node 0, requested 1; largest free on a node 0, requested 1)"},
		{name: "more used than there is", buckets: []Bucket{{2, Resources{corev1.ResourceCPU: -500, corev1.ResourcePods: 5}.Amounts()}},
			requests: Resources{corev1.ResourceCPU: 100}, message: "lacks cpu (largest free on a node 0, requested 100m)"},

		{name: "headroom is a share of free and used", buckets: []Bucket{{1, free(4000, 32).Amounts()}}, requests: free(1000, 1),
			headroom: 20, sessions: 6, slots: 2},
		{name: "headroom is kept", buckets: []Bucket{{1, free(2000, 32).Amounts()}}, requests: free(1000, 1), headroom: 20, sessions: 8,
			message: "keeps its last free capacity for failover (spec.headroomPercent of the MemberCluster)"},
		{name: "failover may use the headroom", buckets: []Bucket{{1, free(2000, 32).Amounts()}}, requests: free(1000, 1), headroom: 20, sessions: 8,
			failover: true, slots: 2},
		{name: "headroom rounds up", buckets: []Bucket{{1, free(3000, 32).Amounts()}}, requests: free(1000, 1), headroom: 1, slots: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := with(member("m", 1), func(c *Candidate) {
				c.Capacity, c.HeadroomPercent, c.Sessions = reporting(tc.buckets...), tc.headroom, tc.sessions
			})
			r := requestWith(session("s"), func(r *Request) { r.Resources, r.Failover = tc.requests, tc.failover })
			v := Explain(r, []Candidate{c}, NewLedger()).Verdicts[0]
			if v.Slots != tc.slots || v.Fits != (tc.slots > 0) || !v.Fits && v.Message != tc.message {
				t.Errorf("got %d slots, %s: %s\nwant %d slots, %s", v.Slots, v.Filter, v.Message, tc.slots, tc.message)
			}
		})
	}
}

func TestReservationsTakeCapacity(t *testing.T) {
	for _, tc := range []struct {
		name     string
		reserved []Resources
		slots    int64
	}{
		{name: "like shapes cost exactly one", reserved: []Resources{free(1000, 4), free(1000, 4), free(1000, 4)}, slots: 13},
		{name: "a smaller one costs one as well", reserved: []Resources{free(100, 0)}, slots: 15},
		{name: "a larger one costs as much as its scarcest resource", reserved: []Resources{free(2500, 4)}, slots: 13},
		{name: "a resource that isn't requested costs the Pod alone", reserved: []Resources{{gpu: 8}}, slots: 15},
		{name: "all is reserved", reserved: []Resources{free(8000, 1), free(8000, 1)}, slots: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := NewLedger()
			for i, r := range tc.reserved {
				l.ReserveFor(types.UID(fmt.Sprint(i)), 1, "uid-m", TemplateKey{Name: "other"}, r)
			}
			d := Explain(session("s"), []Candidate{member("m", 2)}, l)
			if d.Verdicts[0].Slots != tc.slots || d.Placed != (tc.slots > 0) {
				t.Errorf("got %d slots (%s), want %d", d.Verdicts[0].Slots, d.Message, tc.slots)
			}
		})
	}
}

func TestResourcesOf(t *testing.T) {
	got := ResourcesOf(corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("2Gi"), gpu: resource.MustParse("1"),
	})
	want := Resources{corev1.ResourceCPU: 1500, corev1.ResourceMemory: 2 * gi, gpu: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
