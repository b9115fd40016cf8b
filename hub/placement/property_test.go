package placement

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func drawResources(t *rapid.T, label string, most int64) Resources {
	r := Resources{
		corev1.ResourceCPU:    rapid.Int64Range(0, most).Draw(t, label+" cpu") * 500,
		corev1.ResourceMemory: rapid.Int64Range(0, most).Draw(t, label+" memory") * gi,
	}
	if rapid.IntRange(0, 3).Draw(t, label+" has gpu") == 0 {
		r[gpu] = rapid.Int64Range(0, 2).Draw(t, label+" gpu")
	}
	return r
}

func drawCandidate(t *rapid.T, name string) Candidate {
	c := Candidate{
		Name: name, UID: types.UID("uid-" + name),
		Region:          rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region"),
		Labels:          map[string]string{"tier": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tier")},
		Scheduling:      rapid.SampledFrom([]v1alpha1.SchedulingState{"", "Active", "Active", "Cordoned", "Draining"}).Draw(t, "scheduling"),
		Weight:          rapid.Int32Range(0, 3).Draw(t, "weight"),
		HeadroomPercent: rapid.SampledFrom([]int32{0, 0, 20, 100}).Draw(t, "headroom"),
		Ready:           rapid.IntRange(0, 4).Draw(t, "ready") > 0,
		Sessions:        rapid.Int32Range(0, 5).Draw(t, "sessions"),
	}
	if rapid.IntRange(0, 4).Draw(t, "tainted") == 0 {
		c.Taints = []corev1.Taint{{Key: "k", Effect: rapid.SampledFrom([]corev1.TaintEffect{"NoSchedule", "PreferNoSchedule"}).Draw(t, "effect")}}
	}
	if rapid.IntRange(0, 4).Draw(t, "capped") == 0 {
		c.SessionCap = ptr(rapid.Int32Range(0, 6).Draw(t, "cap"))
	}
	if rapid.IntRange(0, 6).Draw(t, "reported") > 0 {
		c.Capacity = reporting(drawBuckets(t)...)
	}
	return c
}

func drawBuckets(t *rapid.T) []Bucket {
	var out []Bucket
	for i := range rapid.IntRange(0, 3).Draw(t, "buckets") {
		free := drawResources(t, fmt.Sprint("bucket ", i), 6)
		free[corev1.ResourcePods] = rapid.Int64Range(0, 4).Draw(t, "pods")
		out = append(out, Bucket{Nodes: rapid.Int32Range(0, 3).Draw(t, "nodes"), Free: free})
	}
	return out
}

func drawScene(t *rapid.T) (Request, []Candidate, *Ledger) {
	var candidates []Candidate
	ledger := NewLedger()
	for i := range rapid.IntRange(1, 6).Draw(t, "members") {
		c := drawCandidate(t, fmt.Sprint("m", i))
		candidates = append(candidates, c)
		for j := range rapid.IntRange(0, 3).Draw(t, "reservations") {
			ledger.ReserveFor(types.UID(fmt.Sprint("other-", j)), 1, c.UID, desk, drawResources(t, "reserved", 3))
		}
	}
	r := session("s")
	r.Resources = drawResources(t, "asked", 3)
	r.Failover = rapid.Bool().Draw(t, "failover")
	r.Policy = &v1alpha1.PlacementPolicySpec{Strategy: rapid.SampledFrom([]v1alpha1.Strategy{
		v1alpha1.StrategySpread, v1alpha1.StrategyBinPack, v1alpha1.StrategyLeastLoaded, v1alpha1.StrategyWeighted}).Draw(t, "strategy")}
	if rapid.IntRange(0, 3).Draw(t, "picky") == 0 {
		r.RequiredRegions = []string{"eu"}
		r.ClusterSelector = selecting("tier", "a")
	}
	if rapid.Bool().Draw(t, "prefers") {
		r.PreferredRegions = []string{"us"}
	}
	return r, candidates, ledger
}

func TestOrderOfCandidatesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		want := Explain(r, candidates, ledger)
		shuffled := slices.Clone(candidates)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		if diff := cmp.Diff(want, Explain(r, shuffled, ledger), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The conditions are written out once more, without the filters' code.
func TestNeverOnAMemberThatIsFilteredOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		d := Place(r, candidates, ledger)
		if !d.Placed {
			return
		}
		c := candidates[slices.IndexFunc(candidates, func(c Candidate) bool { return c.UID == d.Cluster.UID })]
		wrong := map[string]bool{
			"not ready":       !c.Ready,
			"cordoned":        c.Scheduling == v1alpha1.SchedulingCordoned || c.Scheduling == v1alpha1.SchedulingDraining,
			"tainted":         len(c.Taints) > 0 && c.Taints[0].Effect == corev1.TaintEffectNoSchedule,
			"another region":  len(r.RequiredRegions) > 0 && c.Region != "eu",
			"another tier":    r.ClusterSelector != nil && c.Labels["tier"] != "a",
			"never reported":  c.Capacity == nil,
			"at its cap":      c.SessionCap != nil && c.Sessions >= *c.SessionCap,
			"all is headroom": c.HeadroomPercent == 100 && !r.Failover,
		}
		for what, is := range wrong {
			if is {
				t.Fatalf("placed on a member that is %s: %+v", what, c)
			}
		}
	})
}

func TestMoreRoomNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		if !Place(r, candidates, ledger).Placed {
			return
		}
		i := rapid.IntRange(0, len(candidates)-1).Draw(t, "which")
		grown := slices.Clone(candidates)
		if c := grown[i].Capacity; c != nil {
			grown[i].Capacity = reporting(grow(t, c.Templates[desk].Buckets)...)
		}
		if d := Place(r, grown, ledger); !d.Placed {
			t.Fatalf("no longer placed: %s", d.Message)
		}
	})
}

func grow(t *rapid.T, buckets []Bucket) []Bucket {
	out := drawBuckets(t)
	for _, b := range buckets {
		free := Resources{}
		for name, amount := range b.Free {
			free[name] = amount + rapid.Int64Range(0, 3).Draw(t, "more")*500
		}
		out = append(out, Bucket{Nodes: b.Nodes + rapid.Int32Range(0, 2).Draw(t, "more nodes"), Free: free})
	}
	return out
}
