package placement

import (
	"cmp"
	"fmt"
	"math/big"
	"math/rand"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func drawResources(t *rapid.T, label string, least, most int64) Resources {
	r := Resources{
		corev1.ResourceCPU:    rapid.Int64Range(least, most).Draw(t, label+" cpu") * 500,
		corev1.ResourceMemory: rapid.Int64Range(least, most).Draw(t, label+" memory") * gi,
	}
	if rapid.IntRange(0, 3).Draw(t, label+" has gpu") == 0 {
		r[gpu] = rapid.Int64Range(0, 2).Draw(t, label+" gpu")
	}
	return r
}

func drawCandidate(t *rapid.T, name string) Candidate {
	c := Candidate{
		ClusterRef: v1alpha1.ClusterRef{Name: name, UID: types.UID("uid-" + name)},
		MemberClusterSpec: v1alpha1.MemberClusterSpec{
			Region:          rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region"),
			Scheduling:      rapid.SampledFrom([]v1alpha1.SchedulingState{"", "Active", "Active", "Active", "Active", "Cordoned", "Draining"}).Draw(t, "scheduling"),
			Weight:          ptr(rapid.Int32Range(0, 3).Draw(t, "weight")),
			HeadroomPercent: rapid.SampledFrom([]int32{0, 0, 0, 0, 20, 100}).Draw(t, "headroom"),
		},
		Labels:   map[string]string{"tier": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tier")},
		Ready:    rapid.IntRange(0, 9).Draw(t, "ready") > 0,
		Sessions: rapid.Int32Range(0, 5).Draw(t, "sessions"),
	}
	if rapid.IntRange(0, 4).Draw(t, "tainted") == 0 {
		c.Taints = []corev1.Taint{{Key: "k", Effect: rapid.SampledFrom([]corev1.TaintEffect{"NoSchedule", "PreferNoSchedule"}).Draw(t, "effect")}}
	}
	if rapid.IntRange(0, 4).Draw(t, "capped") == 0 {
		c.SessionCap = ptr(rapid.Int32Range(0, 6).Draw(t, "cap"))
	}
	if rapid.IntRange(0, 9).Draw(t, "reported") > 0 {
		c.Capacity = withImage(rapid.Int32Range(0, 1).Draw(t, "images"), reporting(drawBuckets(t)...))
		drawGrowth(t, c.Capacity)
	}
	return c
}

// drawGrowth adds node groups to a report, with some nodes that do not exist yet.
func drawGrowth(t *rapid.T, c *Capacity) {
	of := c.Templates[desk]
	for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "node groups") {
		g := NodeGroup{Name: fmt.Sprint("g", i), ProvisioningTime: rapid.SampledFrom([]time.Duration{0, time.Minute, 20 * time.Minute}).Draw(t, "usual time")}
		g.State = rapid.SampledFrom([]v1alpha1.NodeGroupState{"Available", "Full", "Exhausted"}).Draw(t, "state")
		c.NodeGroups = append(c.NodeGroups, g)
		of.Growth = cmp.Or(of.Growth, &Growth{})
		named := func(buckets []Bucket) (out []NodeGroupBucket) {
			for _, b := range buckets {
				out = append(out, NodeGroupBucket{b, g.Name})
			}
			return out
		}
		of.Growth.Provisioning = append(of.Growth.Provisioning, named(drawBuckets(t))...)
		of.Growth.Growable = append(of.Growth.Growable, named(drawBuckets(t))...)
	}
	c.Templates[desk] = of
}

func drawBuckets(t *rapid.T) []Bucket {
	var out []Bucket
	for i := range rapid.IntRange(0, 4).Draw(t, "buckets") {
		free := drawResources(t, fmt.Sprint("bucket ", i), 0, 16)
		free[corev1.ResourcePods] = rapid.Int64Range(0, 12).Draw(t, "pods")
		out = append(out, Bucket{Nodes: rapid.Int32Range(0, 3).Draw(t, "nodes"), Free: free.Amounts()})
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
			ledger.ReserveFor(types.UID(fmt.Sprint("other-", j)), 1, c.UID, desk, drawResources(t, "reserved", 0, 3))
		}
	}
	r := session("s")
	r.Resources = drawResources(t, "requested", 1, 3)
	r.Failover, r.FreeOnly = rapid.Bool().Draw(t, "failover"), rapid.IntRange(0, 5).Draw(t, "free only") == 0
	if rapid.IntRange(0, 5).Draw(t, "refused") == 0 {
		by := rapid.SampledFrom(candidates).Draw(t, "refused by").UID
		r.Refused, r.RefusedFree = map[types.UID]string{by: "no capacity"}, sets.New[types.UID]()
		if rapid.Bool().Draw(t, "no free slot") {
			r.RefusedFree.Insert(by)
		}
	}
	drawPolicy(t, &r, candidates)
	if rapid.IntRange(0, 5).Draw(t, "picky") == 0 {
		r.RequiredRegions = []string{"eu"}
		r.ClusterSelector = selecting("tier", "a")
	}
	if rapid.Bool().Draw(t, "prefers") {
		r.PreferredRegions = []string{"us"}
	}
	if rapid.IntRange(0, 2).Draw(t, "seated") == 0 {
		at := rapid.SampledFrom(candidates).Draw(t, "seat")
		r.Current = &CurrentPlacement{Cluster: at.UID, UsesCapacity: rapid.Bool().Draw(t, "taken")}
		if rapid.Bool().Draw(t, "not counted yet") {
			ledger.ReserveFor(r.UID, 1, at.UID, desk, r.Resources)
		}
	}
	return r, candidates, ledger
}

// drawPolicy sets a policy on the request, with what its caps count.
func drawPolicy(t *rapid.T, r *Request, candidates []Candidate) {
	p := &v1alpha1.PlacementPolicySpec{
		Strategy: rapid.SampledFrom([]v1alpha1.Strategy{
			v1alpha1.StrategySpread, v1alpha1.StrategyBinPack, v1alpha1.StrategyLeastLoaded, v1alpha1.StrategyWeighted}).Draw(t, "strategy"),
		HeadroomPercent:     rapid.SampledFrom([]int32{0, 0, 0, 30, 90}).Draw(t, "policy headroom"),
		MaxProvisioningTime: rapid.SampledFrom([]v1alpha1.Duration{"", "", "0s", "90s"}).Draw(t, "max provisioning time"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "tiers") {
		tier := v1alpha1.OverflowTier{
			Regions:  rapid.SampledFrom([][]string{nil, {"eu"}, {"us"}, {"us", "eu"}}).Draw(t, "tier regions"),
			Capacity: rapid.SampledFrom([]v1alpha1.TierCapacity{"", "Any", "Free"}).Draw(t, "tier capacity"),
		}
		if rapid.Bool().Draw(t, "tier by label") {
			tier.ClusterLabels = map[string]string{"tier": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tier label")}
		}
		p.Overflow = append(p.Overflow, tier)
	}
	if rapid.IntRange(0, 2).Draw(t, "tolerates") == 0 {
		p.ClusterTolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	}
	for _, most := range []**int32{&p.SessionCaps.Total, &p.SessionCaps.PerUser, &p.SessionCaps.PerNamespace, &p.SessionCaps.PerCluster} {
		if rapid.IntRange(0, 9).Draw(t, "policy capped") == 0 {
			*most = ptr(rapid.Int32Range(2, 8).Draw(t, "most"))
		}
	}
	count := rapid.Int32Range(0, 4)
	r.Counts = Counts{Total: count.Draw(t, "total"), User: count.Draw(t, "of user"), Namespace: count.Draw(t, "of namespace"), Clusters: map[types.UID]int32{}}
	for _, c := range candidates {
		r.Counts.Clusters[c.UID] = count.Draw(t, "in cluster")
	}
	r.PolicyName, r.Policy = "p", p
}

func withImage(nodes int32, c *Capacity) *Capacity {
	t := c.Templates[desk]
	t.ImageNodes = nodes
	c.Templates[desk] = t
	return c
}

func TestOrderOfCandidatesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		want := Explain(r, candidates, ledger)
		shuffled := slices.Clone(candidates)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed"))).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		if diff := gocmp.Diff(want, Explain(r, shuffled, ledger), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The conditions are repeated here without the filters' code.
func TestNeverOnAMemberThatIsFilteredOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		d := Place(r, candidates, ledger)
		if !d.Placed {
			return
		}
		c := candidates[slices.IndexFunc(candidates, func(c Candidate) bool { return c.UID == d.Cluster.UID })]
		own, caps := int32(0), r.Policy.SessionCaps
		if r.Current != nil && r.Current.Cluster == c.UID {
			own = 1
		}
		tainted := len(c.Taints) > 0 && c.Taints[0].Effect == corev1.TaintEffectNoSchedule
		wrong := map[string]bool{
			"not ready":                 !c.Ready,
			"cordoned":                  c.Scheduling == v1alpha1.SchedulingCordoned || c.Scheduling == v1alpha1.SchedulingDraining,
			"tainted":                   tainted && len(r.Policy.ClusterTolerations) == 0,
			"in another region":         len(r.RequiredRegions) > 0 && c.Region != "eu",
			"not selected":              r.ClusterSelector != nil && c.Labels["tier"] != "a",
			"in no tier":                len(r.Policy.Overflow) > 0 && expectedTier(r.Policy.Overflow, c, d.Kind) < 0,
			"one that has refused":      refusedBy(r, c) && (d.Kind == Free || !r.RefusedFree.Has(c.UID)),
			"one without a free slot":   r.FreeOnly && d.Kind != Free,
			"one that grows too slowly": d.Kind != Free && r.Policy.MaxProvisioningTime == "0s",
			"one that never reported":   c.Capacity == nil,
			"at its cap":                c.SessionCap != nil && c.Sessions-own >= *c.SessionCap,
			"at the policy's cap":       caps.PerCluster != nil && r.Counts.Clusters[c.UID] >= *caps.PerCluster,
			"wanted beyond the total":   caps.Total != nil && r.Counts.Total >= *caps.Total,
			"wanted beyond a user's":    caps.PerUser != nil && r.Counts.User >= *caps.PerUser,
			"wanted beyond a namespace": caps.PerNamespace != nil && r.Counts.Namespace >= *caps.PerNamespace,
			"all headroom":              c.HeadroomPercent == 100 && !r.Failover,
		}
		for what, is := range wrong {
			if is {
				t.Fatalf("placed on a member that is %s: %+v", what, c)
			}
		}
	})
}

func refusedBy(r Request, c Candidate) bool {
	_, refused := r.Refused[c.UID]
	return refused
}

func expectedTier(tiers []v1alpha1.OverflowTier, c Candidate, kind Kind) int {
	for i, tier := range tiers {
		if kind != Free && tier.Capacity == "Free" {
			continue
		}
		region := len(tier.Regions) == 0
		for _, r := range tier.Regions {
			region = region || r == c.Region
		}
		if want, required := tier.ClusterLabels["tier"]; region && (!required || want == c.Labels["tier"]) {
			return i
		}
	}
	return -1
}

// A later tier is used only where no member of an earlier one fits, unless the
// session itself prefers another region, or has lost its member.
func TestNoLaterTierWhereAnEarlierOneFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		r.PreferredRegions, r.Failover = nil, false
		if d := Place(r, candidates, ledger); d.Placed && len(r.Policy.Overflow) > 0 {
			at := slices.IndexFunc(candidates, func(c Candidate) bool { return c.UID == d.Cluster.UID })
			tier := expectedTier(r.Policy.Overflow, candidates[at], d.Kind)
			for _, c := range candidates {
				there := Place(r, []Candidate{c}, ledger)
				if other := expectedTier(r.Policy.Overflow, c, there.Kind); there.Placed && other < tier {
					t.Fatalf("placed in tier %d of %s where %s fits in tier %d", tier, d.Cluster.Name, c.Name, other)
				}
			}
		}
	})
}

// The candidate with the best scores as shown is the chosen one: only shown scores
// decide.
func TestScoresAreInTheOrderInWhichTheyDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		d := Explain(r, candidates, ledger)
		for i := 1; i < len(d.Verdicts) && d.Verdicts[i].Fits; i++ {
			before, after := d.Verdicts[i-1].Scores, d.Verdicts[i].Scores
			for j := range before {
				if before[j].Name != after[j].Name {
					t.Fatalf("%s is in the place of %s: %v, %v", before[j].Name, after[j].Name, before, after)
				}
				order := fraction(t, before[j].Value).Cmp(fraction(t, after[j].Value))
				if order > 0 {
					t.Fatalf("%s comes after %s: %v, %v", d.Verdicts[i-1].ClusterName, d.Verdicts[i].ClusterName, before, after)
				}
				if order < 0 {
					break
				}
			}
		}
	})
}

func fraction(t *rapid.T, text string) *big.Rat {
	out, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return out
}

func TestMoreCapacityNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		if !Place(r, candidates, ledger).Placed {
			return
		}
		i := rapid.IntRange(0, len(candidates)-1).Draw(t, "which")
		grown := slices.Clone(candidates)
		if c := grown[i].Capacity; c != nil {
			was := c.Templates[desk]
			grown[i].Capacity = withImage(was.ImageNodes, reporting(grow(t, was.Buckets)...))
			now := grown[i].Capacity.Templates[desk]
			now.Growth = was.Growth
			grown[i].Capacity.NodeGroups, grown[i].Capacity.Templates[desk] = c.NodeGroups, now
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
		for _, has := range b.Free {
			free[has.Name] = has.Value + rapid.Int64Range(0, 3).Draw(t, "more")*500
		}
		out = append(out, Bucket{Nodes: b.Nodes + rapid.Int32Range(0, 2).Draw(t, "more nodes"), Free: free.Amounts()})
	}
	return out
}
