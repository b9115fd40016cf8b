package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// fleet returns n members with 100 buckets and 20 outstanding reservations each, and
// 100,000 sessions in all.
func fleet(n int) ([]Candidate, *Ledger) {
	ledger := NewLedger()
	candidates := make([]Candidate, 0, n)
	for i := range n {
		var buckets []Bucket
		for b := range int64(100) {
			buckets = append(buckets, Bucket{Nodes: int32(max(10, 1000/n)), Free: free(500+100*b, 1+b%32).Amounts()})
		}
		c := member(fmt.Sprintf("member-%04d", i), 0)
		c.UID = types.UID(fmt.Sprintf("5f0c1f0e-6a51-4d06-9d49-%012d", i))
		c.Region = fmt.Sprint("region-", i%20)
		c.Labels = map[string]string{"tier": fmt.Sprint(i % 3)}
		c.Capacity = withImage(int32(i%2), reporting(buckets...))
		c.Sessions = int32(100_000 / n)
		candidates = append(candidates, c)
		for s := range 20 {
			ledger.ReserveFor(types.UID(fmt.Sprintf("held-%d-%d", i, s)), 1, c.UID, desk, free(int64(500+s%4*500), 2))
		}
	}
	return candidates, ledger
}

// everything returns a policy with all its fields set to the most expensive values:
// most members are in the last tier, and all of them below the caps.
func everything(candidates []Candidate) (*v1alpha1.PlacementPolicySpec, Counts) {
	counts := Counts{Total: 100_000, User: 10, Namespace: 1000, Clusters: map[types.UID]int32{}}
	for _, c := range candidates {
		counts.Clusters[c.UID] = c.Sessions
	}
	return &v1alpha1.PlacementPolicySpec{
		PreferredRegions:  []string{"region-3", "region-4"},
		PreferredClusters: selecting("tier", "1"),
		RequiredClusters:  &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}},
		Overflow: []v1alpha1.OverflowTier{
			{Regions: []string{"region-none"}}, {ClusterLabels: map[string]string{"tier": "none"}},
			{Regions: []string{"region-1", "region-2"}, ClusterLabels: map[string]string{"tier": "none"}}, {},
		},
		ClusterTolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		HeadroomPercent:    10,
		SessionCaps: v1alpha1.SessionCaps{
			Total: ptr(int32(200_000)), PerUser: ptr(int32(20)), PerNamespace: ptr(int32(2000)), PerCluster: ptr(int32(150_000)),
		},
	}, counts
}

// sizes are requested in rotation, so that the cached evaluation of one is not
// used by the next.
var sizes = []Resources{
	{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 4 * gi},
	{corev1.ResourceCPU: 2000, corev1.ResourceMemory: 4 * gi},
	{corev1.ResourceCPU: 2000, corev1.ResourceMemory: 8 * gi},
	{corev1.ResourceCPU: 4000, corev1.ResourceMemory: 16 * gi},
}

// BenchmarkPlace decides, reserves, and accepts a report of one member between
// two decisions, as in a busy fleet.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) { benchmarkPlace(b, n, 0) })
	}
}

// BenchmarkPlaceOnNewNodes does the same where each member has four node groups, and no slot is free.
func BenchmarkPlaceOnNewNodes(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) { benchmarkPlace(b, n, 4) })
	}
}

func benchmarkPlace(b *testing.B, n, groups int) {
	b.Helper()
	candidates, ledger := fleet(n)
	for i := range candidates {
		for g := range groups {
			addGrowth(candidates[i].Capacity, NodeGroup{Name: fmt.Sprint("group-", g), Provisioning: 2, Growable: int32(max(10, 20_000/n)), ProvisioningTime: time.Minute})
		}
		if t := candidates[i].Capacity.Templates[desk]; groups > 0 {
			t.Buckets = nil
			candidates[i].Capacity.Templates[desk] = t
		}
	}
	policy, counts := everything(candidates)
	took := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		r := session("bench")
		r.UID = types.UID(fmt.Sprintf("session-%d", i))
		r.Resources = sizes[i%len(sizes)]
		r.PolicyName, r.Policy, r.Counts = "p", policy, counts
		c := &candidates[i%n]
		fresh := *c.Capacity
		fresh.Sequence++
		c.Capacity = &fresh
		ledger.Reported(c.UID, fresh.Sequence)
		began := time.Now()
		d := Place(r, candidates, ledger)
		took = append(took, time.Since(began))
		if !d.Placed {
			b.Fatal(d.Message)
		}
		ledger.ReserveFor(r.UID, 1, d.Cluster.UID, r.Template, r.Resources)
		ledger.Release(r.UID, 1, d.Cluster.UID)
	}
	b.StopTimer()
	reportDecisions(b, took)
}

// BenchmarkEvaluation evaluates a report of 100 nodes for the 100 classes of the last decisions: Compute
// is what no decision waits for, and Evaluated what it may wait for.
func BenchmarkEvaluation(b *testing.B) {
	candidates, ledger := fleet(1000)
	for i := range 100 {
		r := session("bench")
		r.Resources = free(int64(100+i), 2)
		Place(r, candidates, ledger)
	}
	var computed, stored time.Duration
	b.ResetTimer()
	for i := range b.N {
		c := &candidates[i%len(candidates)]
		fresh := *c.Capacity
		e := ledger.Evaluation(c.UID, &fresh)
		began := time.Now()
		e.Compute()
		between := time.Now()
		ledger.Evaluated(e)
		computed, stored = computed+between.Sub(began), stored+time.Since(between)
	}
	b.ReportMetric(float64(computed.Nanoseconds())/float64(b.N), "computed-ns")
	b.ReportMetric(float64(stored.Nanoseconds())/float64(b.N), "stored-ns")
}

// reportDecisions reports how long the decisions took, and how many per second that
// allows.
func reportDecisions(b *testing.B, took []time.Duration) {
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	slices.Sort(took)
	b.ReportMetric(float64(len(took))/sum.Seconds(), "decisions/s")
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// BenchmarkUnschedulable decides on a session that fits nowhere.
func BenchmarkUnschedulable(b *testing.B) {
	candidates, ledger := fleet(1000)
	r := session("bench")
	r.Resources = Resources{gpu: 1}
	b.ReportAllocs()
	for b.Loop() {
		if Place(r, candidates, ledger).Placed {
			b.Fatal("placed")
		}
	}
}
