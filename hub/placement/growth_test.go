package placement

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// growing returns a member in a region with so many empty nodes of each kind, of 8 slots each. Node
// group desktops, whose nodes usually take 95 s, adds the others.
func growing(name, region string, free, provisioning, growable int32) Candidate {
	return with(member(name, free), func(c *Candidate) {
		c.Region = region
		addGrowth(c.Capacity, NodeGroup{
			Name: "desktops", Nodes: free, Provisioning: provisioning, Growable: growable,
			State: v1alpha1.NodeGroupAvailable, ProvisioningTime: 95 * time.Second,
		})
	})
}

// addGrowth adds a node group to a report, whose nodes have 8 slots for desk.
func addGrowth(c *Capacity, g NodeGroup) {
	c.NodeGroups = append(c.NodeGroups, g)
	t := c.Templates[desk]
	if t.Growth == nil {
		t.Growth = &Growth{}
	}
	t.Growth.Provisioning = append(t.Growth.Provisioning, NodeGroupBucket{Bucket{g.Provisioning, free(8000, 32).Amounts()}, g.Name})
	t.Growth.Growable = append(t.Growth.Growable, NodeGroupBucket{Bucket{g.Growable, free(8000, 32).Amounts()}, g.Name})
	c.Templates[desk] = t
}

func freeIn(regions ...string) v1alpha1.OverflowTier {
	return v1alpha1.OverflowTier{Regions: regions, Capacity: v1alpha1.TierCapacityFree}
}

func TestTiersAndKindsOfCapacity(t *testing.T) {
	all := v1alpha1.OverflowTier{}
	home, anywhere := tiers(inRegions("eu"), inRegions("us")), tiers(freeIn("eu"), freeIn("us"), inRegions("eu"), inRegions("us"))
	soft := func(c Candidate) Candidate {
		return with(c, func(c *Candidate) {
			c.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}}
		})
	}
	policy := func(change func(*v1alpha1.PlacementPolicySpec)) Request { return governed(change) }
	lost := func(r *Request) { r.Failover = true }
	for _, tc := range []struct {
		name    string
		request Request
		members []Candidate
		want    string // the member, the kind and the tier
	}{
		{"a free slot anywhere comes before growth", session("s"), []Candidate{growing("eu", "eu", 0, 9, 9), growing("us", "us", 1, 0, 0)}, "us free 0"},
		{"a provisioning one before a growable one", session("s"), []Candidate{growing("eu", "eu", 0, 0, 9), growing("us", "us", 0, 1, 0)}, "us provisioning 0"},
		{"growth if nothing else is there", session("s"), []Candidate{growing("eu", "eu", 0, 0, 1), growing("us", "us", 0, 0, 0)}, "eu growable 0"},
		{"a member's free slots come first", session("s"), []Candidate{growing("eu", "eu", 1, 1, 1)}, "eu free 0"},
		{"a member without groups", session("s"), []Candidate{growing("eu", "eu", 0, 1, 1), member("us", 1)}, "us free 0"},

		{"home first: it grows", policy(home), []Candidate{growing("eu", "eu", 0, 0, 1), growing("us", "us", 9, 0, 0)}, "eu growable 0"},
		{"home first, and home is full", policy(home), []Candidate{growing("eu", "eu", 0, 0, 0), growing("us", "us", 0, 1, 0)}, "us provisioning 1"},
		{"free slots anywhere first", policy(anywhere), []Candidate{growing("eu", "eu", 0, 9, 9), growing("us", "us", 1, 0, 0)}, "us free 1"},
		{"free slots anywhere first: at home", policy(anywhere), []Candidate{growing("eu", "eu", 1, 0, 0), growing("us", "us", 9, 0, 0)}, "eu free 0"},
		{"free slots anywhere first, then home", policy(anywhere), []Candidate{growing("eu", "eu", 0, 0, 1), growing("us", "us", 0, 9, 9)}, "eu growable 2"},
		{"free slots anywhere first, then away", policy(anywhere), []Candidate{growing("eu", "eu", 0, 0, 0), growing("us", "us", 0, 0, 9)}, "us growable 3"},
		{"no growth away", policy(tiers(inRegions("eu"), freeIn("us"))), []Candidate{growing("eu", "eu", 0, 0, 0), growing("us", "us", 0, 9, 9)}, ""},
		{"no growth away, but a free slot", policy(tiers(inRegions("eu"), freeIn("us"))), []Candidate{growing("eu", "eu", 0, 0, 0), growing("us", "us", 1, 9, 9)}, "us free 1"},
		{"growth in the tier of all others", policy(tiers(inRegions("eu"), freeIn("us"), all)), []Candidate{growing("eu", "eu", 0, 0, 0), growing("us", "us", 0, 0, 9)}, "us growable 2"},
		{"Any is the default", policy(tiers(v1alpha1.OverflowTier{Regions: []string{"eu"}, Capacity: v1alpha1.TierCapacityAny})), []Candidate{growing("eu", "eu", 0, 0, 1)}, "eu growable 0"},

		{"the session's preference comes before the kind", requestWith(session("s"), func(r *Request) { r.PreferredRegions = []string{"eu"} }),
			[]Candidate{growing("eu", "eu", 0, 0, 1), growing("us", "us", 1, 0, 0)}, "eu growable 0"},
		{"so does the policy's", policy(func(p *v1alpha1.PlacementPolicySpec) { p.PreferredRegions = []string{"eu"} }),
			[]Candidate{growing("eu", "eu", 0, 0, 1), growing("us", "us", 1, 0, 0)}, "eu growable 0"},
		{"so do soft taints", session("s"), []Candidate{growing("eu", "eu", 0, 0, 1), soft(growing("us", "us", 1, 0, 0))}, "eu growable 0"},
		{"the kind comes before the strategy", policy(func(p *v1alpha1.PlacementPolicySpec) { p.Strategy = v1alpha1.StrategySpread }),
			[]Candidate{growing("eu", "eu", 0, 0, 9), with(growing("us", "us", 1, 0, 0), func(c *Candidate) { c.Sessions = 99 })}, "us free 0"},

		{"a lost session uses free slots of later tiers", governed(home, lost), []Candidate{growing("eu", "eu", 0, 9, 9), growing("us", "us", 1, 0, 0)}, "us free 1"},
		{"but not outside the tiers", governed(tiers(inRegions("eu")), lost), []Candidate{growing("eu", "eu", 0, 0, 9), growing("us", "us", 1, 0, 0)}, "eu growable 0"},
		{"nor growth where only free slots are admitted", governed(tiers(freeIn("eu")), lost), []Candidate{growing("eu", "eu", 0, 9, 9)}, ""},
		{"a session whose home is there uses growth in every tier", governed(tiers(freeIn("eu")), func(r *Request) {
			r.Home = &v1alpha1.ClusterRef{Name: "eu", UID: "uid-eu"}
		}), []Candidate{growing("eu", "eu", 0, 0, 9), growing("us", "us", 1, 0, 0)}, "eu growable 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Explain(tc.request, tc.members, NewLedger())
			got := ""
			if d.Placed {
				got = fmt.Sprint(d.Cluster.Name, " ", d.Kind, " ", scoreOf(d, "Overflow"))
			}
			if got != tc.want {
				t.Errorf("got %q (%s), want %q", got, d.Message, tc.want)
			}
		})
	}
}

// scoreOf returns a score of the best member.
func scoreOf(d Decision, name string) string {
	for _, s := range d.Verdicts[0].Scores {
		if s.Name == name {
			return s.Value
		}
	}
	return "no " + name
}

func TestRequestsThatUseNoGrowth(t *testing.T) {
	slow := func(limit v1alpha1.Duration) func(*v1alpha1.PlacementPolicySpec) {
		return func(p *v1alpha1.PlacementPolicySpec) { p.MaxProvisioningTime = limit }
	}
	none := func(*v1alpha1.PlacementPolicySpec) {}
	refused := func(free bool) func(*Request) {
		return func(r *Request) {
			r.Refused, r.RefusedFree = map[types.UID]string{"uid-eu": "NoCapacity: it lacks cpu"}, sets.New[types.UID]()
			if free {
				r.RefusedFree.Insert("uid-eu")
			}
		}
	}
	usual := func(d time.Duration) Candidate {
		return with(growing("eu", "eu", 0, 0, 1), func(c *Candidate) { c.Capacity.NodeGroups[0].ProvisioningTime = d })
	}
	for _, tc := range []struct {
		name    string
		request Request
		member  Candidate
		want    string // the kind, or the filter and why it does not fit
	}{
		{"within the limit", governed(slow("95s")), growing("eu", "eu", 0, 0, 1), "growable"},
		{"beyond the limit", governed(slow("94s")), growing("eu", "eu", 0, 1, 1),
			"Capacity: has no free slot (node group desktops usually takes 95 s, longer than maxProvisioningTime of policy lab)"},
		{"never", governed(slow("0s")), growing("eu", "eu", 0, 1, 1), "Capacity: has no free slot (policy lab uses no nodes that must be added first: spec.maxProvisioningTime)"},
		{"never, with a free slot", governed(slow("0s")), growing("eu", "eu", 1, 1, 1), "free"},
		{"ten minutes by default", governed(none), usual(10 * time.Minute), "growable"},
		{"more than ten minutes by default", governed(none), usual(11 * time.Minute),
			"Capacity: has no free slot (node group desktops usually takes 11 min, longer than maxProvisioningTime of policy lab)"},
		{"ten minutes without a policy", session("s"), usual(10*time.Minute + time.Second),
			"Capacity: has no free slot (node group desktops usually takes 10 min, longer than maxProvisioningTime of the policy)"},
		{"a usual time that is unknown is two minutes", governed(slow("2m")), usual(0), "growable"},
		{"and no less", governed(slow("119s")), usual(0), "Capacity: has no free slot (node group desktops usually takes 120 s, longer than maxProvisioningTime of policy lab)"},
		{"one of two groups is fast enough", governed(slow("95s")), with(usual(11*time.Minute), func(c *Candidate) {
			addGrowth(c.Capacity, NodeGroup{Name: "fast", Growable: 1, ProvisioningTime: time.Minute})
		}), "growable"},
		{"a tier admits free slots only", governed(tiers(freeIn("eu"))), growing("eu", "eu", 0, 1, 1),
			"Capacity: has no free slot (policy lab admits only free slots there: capacity of spec.overflow)"},
		{"a session that runs", governed(none, func(r *Request) { r.FreeOnly = true }), growing("eu", "eu", 0, 1, 1),
			"Capacity: has no free slot (a session that runs is not moved to a node that must be added first)"},
		{"a session that runs, with a free slot", governed(none, func(r *Request) { r.FreeOnly = true }), growing("eu", "eu", 1, 1, 1), "free"},

		{"no free slot, said the member", governed(none, refused(true)), growing("eu", "eu", 1, 0, 1), "growable"},
		{"no slot at all", governed(none, refused(false)), growing("eu", "eu", 1, 0, 1), "Refused: refused it recently (eu: NoCapacity: it lacks cpu)"},
		{"no free slot, and it does not grow", governed(none, refused(true)), growing("eu", "eu", 1, 0, 0), "Refused: refused it recently (eu: NoCapacity: it lacks cpu)"},
		{"no free slot, and it has no groups", governed(none, refused(true)), member("eu", 1), "Refused: refused it recently (eu: NoCapacity: it lacks cpu)"},
		{"no free slot, and growth is not admitted", governed(tiers(freeIn("eu")), refused(true)), growing("eu", "eu", 1, 0, 1),
			"Capacity: refused it recently (eu: NoCapacity: it lacks cpu)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Explain(tc.request, []Candidate{tc.member}, NewLedger())
			got := d.Kind.String()
			if !d.Placed {
				got = d.Verdicts[0].Filter + ": " + d.Verdicts[0].Message
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if fits := Slots(tc.request, []Candidate{tc.member}, NewLedger(), 100) > 0; fits != d.Placed {
				t.Errorf("placed %v, but capacity for it: %v", d.Placed, fits)
			}
		})
	}
}

// A burst fills what is free, then what is being added, then what can be added, and no more. One
// reservation lands on one node of any kind.
func TestABurstFillsTheKindsInTheirOrder(t *testing.T) {
	members, ledger, got := []Candidate{growing("eu", "eu", 1, 1, 2)}, NewLedger(), map[string]int{}
	for i := range 40 {
		r := session(fmt.Sprint(i))
		d := Place(r, members, ledger)
		if !d.Placed {
			got[""]++
			continue
		}
		got[d.Kind.String()]++
		ledger.ReserveFor(r.UID, 1, d.Cluster.UID, r.Template, r.Resources)
	}
	if diff := cmp.Diff(map[string]int{"free": 8, "provisioning": 8, "growable": 16, "": 8}, got); diff != "" {
		t.Error(diff)
	}
}

// Strategies compare the slots of the kind that decides.
func TestStrategiesCountTheSlotsOfTheKind(t *testing.T) {
	for _, tc := range []struct {
		strategy v1alpha1.Strategy
		members  []Candidate // the first should win
	}{
		{v1alpha1.StrategyBinPack, []Candidate{growing("a", "eu", 1, 0, 90), growing("b", "eu", 2, 0, 0)}},
		{v1alpha1.StrategyLeastLoaded, []Candidate{growing("b", "eu", 3, 0, 0), growing("a", "eu", 1, 0, 90)}},
		{v1alpha1.StrategyBinPack, []Candidate{growing("a", "eu", 0, 1, 90), growing("b", "eu", 0, 2, 0)}},
		{v1alpha1.StrategyBinPack, []Candidate{growing("a", "eu", 0, 0, 1), growing("b", "eu", 0, 0, 2)}},
	} {
		for i := range tc.members {
			tc.members[i].Sessions = 4
		}
		r := requestWith(session("s"), func(r *Request) { r.Policy = &v1alpha1.PlacementPolicySpec{Strategy: tc.strategy} })
		if d := Place(r, tc.members, NewLedger()); d.Cluster.Name != tc.members[0].Name {
			t.Errorf("%s: got %s, want %s", tc.strategy, d.Message, tc.members[0].Name)
		}
	}
}

// Headroom is a percentage of everything, and deducted from what is used last.
func TestHeadroomIncludesGrowth(t *testing.T) {
	slots := func(headroom, sessions int32, change func(*Request)) string {
		c := with(growing("m", "eu", 1, 1, 2), func(c *Candidate) { c.HeadroomPercent, c.Sessions = headroom, sessions })
		v := Explain(requestWith(session("s"), change), []Candidate{c}, NewLedger()).Verdicts[0]
		return fmt.Sprint(v.Slots-v.Provisioning-v.Growable, " ", v.Provisioning, " ", v.Growable)
	}
	none := func(*Request) {}
	for _, tc := range []struct {
		what, got, want string
	}{
		{"without headroom", slots(0, 0, none), "8 8 16"},
		{"of all", slots(25, 0, none), "8 8 8"},
		{"of all and of the sessions", slots(50, 28, none), "2 0 0"},
		{"more than there is", slots(90, 28, none), "0 0 0"},
		{"failover uses it", slots(50, 28, func(r *Request) { r.Failover = true }), "8 8 16"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %s slots, want %s", tc.what, tc.got, tc.want)
		}
	}
}

// A session that runs has its slot, whatever the others have reserved.
func TestACurrentPlacementIsFree(t *testing.T) {
	ledger := NewLedger()
	for i := range 3 {
		ledger.ReserveFor(types.UID(fmt.Sprint("other-", i)), 1, "uid-eu", desk, session("").Resources)
	}
	r := requestWith(session("s"), func(r *Request) {
		r.Current, r.FreeOnly = &CurrentPlacement{Cluster: "uid-eu", UsesCapacity: true}, true
	})
	d := Place(r, []Candidate{growing("eu", "eu", 0, 0, 1), growing("us", "us", 0, 9, 9)}, ledger)
	if !d.Placed || d.Cluster.Name != "eu" || d.Kind != Free {
		t.Errorf("got %v %s: %s", d.Kind, d.Cluster.Name, d.Message)
	}
}

func TestTheScoreOfTheKindIsNamedWhereSomeMemberHasGroups(t *testing.T) {
	names := func(r Request, members ...Candidate) (out []string) {
		for _, s := range Explain(r, members, NewLedger()).Verdicts[0].Scores {
			out = append(out, s.Name+" "+s.Value)
		}
		return out[:len(out)-1] // without the hash
	}
	plain := []string{"PreferredRegion 0", "Overflow 0", "PolicyRegion 0", "PolicyCluster 1", "AvoidedTaints 0"}
	if diff := cmp.Diff(append(plain[:5:5], "LeastLoaded 1/8"), names(session("s"), member("m", 1))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(append(plain[:5:5], "Capacity 2", "LeastLoaded 1/8"), names(session("s"), growing("m", "eu", 0, 0, 1))); diff != "" {
		t.Error(diff)
	}
	lost := requestWith(session("s"), func(r *Request) { r.Failover = true })
	if diff := cmp.Diff(append(append([]string{"Capacity 1"}, plain...), "LeastLoaded 1/8"), names(lost, growing("m", "eu", 0, 1, 0))); diff != "" {
		t.Error(diff)
	}
}
