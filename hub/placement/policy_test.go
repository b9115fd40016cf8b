package placement

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// governed returns a request that policy lab governs.
func governed(change func(*v1alpha1.PlacementPolicySpec), more ...func(*Request)) Request {
	r := session("s")
	r.PolicyName, r.Policy = "lab", &v1alpha1.PlacementPolicySpec{}
	change(r.Policy)
	for _, f := range more {
		f(&r)
	}
	return r
}

func tiers(tiers ...v1alpha1.OverflowTier) func(*v1alpha1.PlacementPolicySpec) {
	return func(p *v1alpha1.PlacementPolicySpec) { p.Overflow = tiers }
}

func inRegions(regions ...string) v1alpha1.OverflowTier {
	return v1alpha1.OverflowTier{Regions: regions}
}

func labeled(key, value string) v1alpha1.OverflowTier {
	return v1alpha1.OverflowTier{ClusterLabels: map[string]string{key: value}}
}

func TestPolicyFilters(t *testing.T) {
	plain := func(*Candidate) {}
	caps := func(c v1alpha1.SessionCaps) func(*v1alpha1.PlacementPolicySpec) {
		return func(p *v1alpha1.PlacementPolicySpec) { p.SessionCaps = c }
	}
	counting := func(c Counts) func(*Request) { return func(r *Request) { r.Counts = c } }
	for _, tc := range []struct {
		name    string
		member  func(*Candidate)
		request Request
		filter  string // that fails, empty if it fits
		message string
	}{
		{"in a tier by region", plain, governed(tiers(inRegions("us"), inRegions("ap", "eu"))), "", "8 slots left"},
		{"in a tier by label", plain, governed(tiers(labeled("tier", "a"))), "", "8 slots left"},
		{"in the tier of all others", plain, governed(tiers(inRegions("us"), v1alpha1.OverflowTier{})), "", "8 slots left"},
		{"in no tier", plain, governed(tiers(inRegions("us"), inRegions("ap"))), "Overflow",
			"is in no overflow tier of policy lab (an empty tier at the end of spec.overflow is any cluster)"},
		{"in the region of a tier, but not of its labels", plain,
			governed(tiers(v1alpha1.OverflowTier{Regions: []string{"eu"}, ClusterLabels: map[string]string{"tier": "b"}})), "Overflow",
			"is in no overflow tier of policy lab (an empty tier at the end of spec.overflow is any cluster)"},
		{"a label that is empty is not one that is missing", plain, governed(tiers(labeled("gold", ""))), "Overflow",
			"is in no overflow tier of policy lab (an empty tier at the end of spec.overflow is any cluster)"},

		{"a taint that the policy tolerates", func(c *Candidate) {
			c.Taints = []corev1.Taint{{Key: "dedicated", Value: "lab", Effect: corev1.TaintEffectNoSchedule}}
		}, governed(func(p *v1alpha1.PlacementPolicySpec) {
			p.ClusterTolerations = []corev1.Toleration{{Key: "dedicated", Value: "lab"}}
		}), "", "8 slots left"},
		{"a taint that the policy tolerates besides what the session does", func(c *Candidate) {
			c.Taints = []corev1.Taint{{Key: "dedicated", Value: "lab", Effect: corev1.TaintEffectNoSchedule}, {Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
		}, governed(func(p *v1alpha1.PlacementPolicySpec) {
			p.ClusterTolerations = []corev1.Toleration{{Key: "dedicated", Value: "lab"}}
		}, func(r *Request) {
			r.ClusterTolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
		}), "", "8 slots left"},

		{"headroom of the policy", plain, governed(func(p *v1alpha1.PlacementPolicySpec) { p.HeadroomPercent = 20 }), "", "6 slots left"},
		{"the larger headroom of the member", func(c *Candidate) { c.HeadroomPercent = 50 },
			governed(func(p *v1alpha1.PlacementPolicySpec) { p.HeadroomPercent = 20 }), "", "4 slots left"},
		{"headroom counts the sessions there", func(c *Candidate) { c.Sessions = 32 },
			governed(func(p *v1alpha1.PlacementPolicySpec) { p.HeadroomPercent = 20 }), "Capacity",
			"keeps its last free capacity for failover (spec.headroomPercent of policy lab)"},
		{"failover uses the headroom", func(c *Candidate) { c.Sessions = 32 },
			governed(func(p *v1alpha1.PlacementPolicySpec) { p.HeadroomPercent = 20 }, func(r *Request) { r.Failover = true }), "", "8 slots left"},

		{"below its cap in the cluster", plain, governed(caps(v1alpha1.SessionCaps{PerCluster: ptr(int32(3))}),
			counting(Counts{Clusters: map[types.UID]int32{"uid-m": 2, "uid-n": 3}})), "", "8 slots left"},
		{"at its cap in the cluster", plain, governed(caps(v1alpha1.SessionCaps{PerCluster: ptr(int32(3))}),
			counting(Counts{Clusters: map[types.UID]int32{"uid-m": 3}})), "PolicyClusterCap",
			"holds the 3 sessions that policy lab places in a cluster (raise spec.sessionCaps.perCluster of the policy)"},
		{"below all caps", plain, governed(caps(v1alpha1.SessionCaps{Total: ptr(int32(3)), PerUser: ptr(int32(2)), PerNamespace: ptr(int32(2))}),
			counting(Counts{Total: 2, User: 1, Namespace: 1})), "", "8 slots left"},
		{"all are placed", plain, governed(caps(v1alpha1.SessionCaps{Total: ptr(int32(3))}), counting(Counts{Total: 3})), "PolicyCap",
			"has capacity, but policy lab has placed 3 sessions, and places at most 3 (sessionCaps.total) (end one of them, or raise spec.sessionCaps.total of policy lab)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Explain(tc.request, []Candidate{with(member("m", 1), tc.member)}, NewLedger())
			v := d.Verdicts[0]
			if v.Filter != tc.filter || v.Message != tc.message || v.Fits != (tc.filter == "") || d.Placed != v.Fits {
				t.Errorf("got filter %q: %s (placed %v)\nwant filter %q: %s", v.Filter, v.Message, d.Placed, tc.filter, tc.message)
			}
		})
	}
}

func TestReachedCapsAreNamedWithCountAndRemedy(t *testing.T) {
	for _, tc := range []struct {
		caps   v1alpha1.SessionCaps
		counts Counts
		want   string
	}{
		{v1alpha1.SessionCaps{Total: ptr(int32(20))}, Counts{Total: 25},
			"policy lab has placed 25 sessions, and places at most 20 (sessionCaps.total): end one of them, or raise spec.sessionCaps.total of policy lab"},
		{v1alpha1.SessionCaps{PerUser: ptr(int32(2))}, Counts{Total: 9, User: 2},
			"policy lab has placed 2 sessions of user ada, and places at most 2 (sessionCaps.perUser): end one of them, or raise spec.sessionCaps.perUser of policy lab"},
		{v1alpha1.SessionCaps{PerNamespace: ptr(int32(7))}, Counts{Total: 9, Namespace: 7},
			"policy lab has placed 7 sessions of namespace demo, and places at most 7 (sessionCaps.perNamespace): end one of them, or raise spec.sessionCaps.perNamespace of policy lab"},
		{v1alpha1.SessionCaps{Total: ptr(int32(0))}, Counts{},
			"policy lab has placed 0 sessions, and places at most 0 (sessionCaps.total): raise spec.sessionCaps.total of policy lab"},
	} {
		r := governed(func(p *v1alpha1.PlacementPolicySpec) { p.SessionCaps = tc.caps }, func(r *Request) { r.Counts = tc.counts })
		d := Place(r, []Candidate{member("m", 1)}, NewLedger())
		if d.Placed || d.Reason != v1alpha1.ReasonPolicyCap || d.Message != tc.want {
			t.Errorf("got %s: %s\nwant %s", d.Reason, d.Message, tc.want)
		}
	}
}

func TestPolicyRanking(t *testing.T) {
	in := func(name, region string) Candidate {
		return with(member(name, 1), func(c *Candidate) { c.Region = region })
	}
	soft := func(c Candidate) Candidate {
		return with(c, func(c *Candidate) {
			c.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}}
		})
	}
	full := func(c Candidate) Candidate {
		return with(c, func(c *Candidate) { c.Capacity = reporting() })
	}
	home := tiers(inRegions("eu"), inRegions("us", "ap"), v1alpha1.OverflowTier{})
	for _, tc := range []struct {
		name    string
		request Request
		members []Candidate // the first should win
	}{
		{"tiers count in order, above load", governed(home), []Candidate{with(in("a", "eu"), func(c *Candidate) { c.Sessions = 900 }), in("b", "us"), in("c", "sa")}},
		{"a later tier where the earlier is full", governed(home), []Candidate{in("b", "ap"), full(in("a", "eu")), in("c", "sa")}},
		{"within a tier its order of regions is none", governed(home), []Candidate{in("b", "ap"), with(in("a", "us"), func(c *Candidate) { c.Sessions = 9 })}},
		{"the session's preference comes before tiers", governed(home, func(r *Request) { r.PreferredRegions = []string{"sa"} }),
			[]Candidate{in("c", "sa"), in("a", "eu")}},
		{"tiers come before the policy's regions", governed(home, func(r *Request) { r.Policy.PreferredRegions = []string{"ap", "eu"} }),
			[]Candidate{in("a", "eu"), in("b", "ap")}},
		{"within a tier the policy's regions count", governed(home, func(r *Request) { r.Policy.PreferredRegions = []string{"ap", "us"} }),
			[]Candidate{with(in("b", "ap"), func(c *Candidate) { c.Sessions = 9 }), in("a", "us")}},
		{"a soft taint that the policy tolerates does not count", governed(func(p *v1alpha1.PlacementPolicySpec) {
			p.ClusterTolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
		}), []Candidate{soft(member("a", 9)), member("b", 1)}},
		{"an image that is there decides between equals", session("s"), []Candidate{withImageIn(member("a", 9)), member("b", 9)}},
		{"whichever it is", session("s"), []Candidate{withImageIn(member("b", 9)), member("a", 9)}},
		{"an image that is there is worth one session, and no more", governed(func(p *v1alpha1.PlacementPolicySpec) { p.Strategy = v1alpha1.StrategySpread }), []Candidate{with(member("a", 9), func(c *Candidate) { c.Sessions = 3 }), with(withImageIn(member("b", 9)), func(c *Candidate) { c.Sessions = 5 })}},
		{"an image that is there comes after soft taints", session("s"), []Candidate{member("a", 1), soft(withImageIn(member("b", 9)))}},
		{"how many nodes have the image does not matter", session("s"),
			[]Candidate{withImageIn(member("a", 9)), with(member("b", 9), func(c *Candidate) { withImage(9, c.Capacity); c.Sessions = 3 })}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := Place(tc.request, tc.members, NewLedger()); d.Cluster.Name != tc.members[0].Name {
				t.Errorf("got %s, want %s", d.Message, tc.members[0].Name)
			}
		})
	}
}

// A placed session does not compete with itself.
func TestCurrentPlacement(t *testing.T) {
	current := func(inUse bool) func(*Request) {
		return func(r *Request) { r.Current = &CurrentPlacement{Cluster: "uid-a", UsesCapacity: inUse} }
	}
	spreading := func(p *v1alpha1.PlacementPolicySpec) { p.Strategy = v1alpha1.StrategySpread }
	full := func(name string) Candidate {
		return with(member(name, 1), func(c *Candidate) { c.Capacity, c.Sessions = reporting(), 8 })
	}
	for _, tc := range []struct {
		name    string
		request Request
		ledger  func(*Ledger)
		members []Candidate
		want    string // empty if it fits nowhere
	}{
		{"its own capacity is free for it", requestWith(session("s"), current(true)), nil, []Candidate{full("a"), full("b")}, "a"},
		{"one that is idle has none", requestWith(session("s"), current(false)), nil, []Candidate{full("a"), full("b")}, ""},
		{"its own capacity that no report counts yet is ignored once", requestWith(session("s"), current(true)), func(l *Ledger) {
			l.ReserveFor("session-s", 1, "uid-a", desk, session("s").Resources)
			l.ReserveFor("other", 1, "uid-a", desk, session("s").Resources)
		}, []Candidate{with(member("a", 1), func(c *Candidate) { c.Capacity = reporting(Bucket{1, free(1000, 4).Amounts()}) })}, ""},
		{"where it is it harms no session that is on its way", requestWith(session("s"), current(true)), func(l *Ledger) {
			l.ReserveFor("other", 1, "uid-a", desk, session("s").Resources)
		}, []Candidate{with(member("a", 1), func(c *Candidate) { c.Capacity = reporting(Bucket{1, free(1000, 4).Amounts()}) })}, "a"},
		{"it keeps its place under a cap", requestWith(session("s"), current(true)), nil,
			[]Candidate{with(full("a"), func(c *Candidate) { c.SessionCap = ptr(int32(8)) })}, "a"},
		{"among equals it stays", governed(spreading, current(true)), nil,
			[]Candidate{with(member("a", 1), func(c *Candidate) { c.Sessions = 5 }), with(member("b", 1), func(c *Candidate) { c.Sessions = 4 }),
				with(member("c", 1), func(c *Candidate) { c.Sessions = 4 })}, "a"},
		{"it goes where it is better", governed(spreading, current(true)), nil,
			[]Candidate{with(member("a", 1), func(c *Candidate) { c.Sessions = 6 }), with(member("b", 1), func(c *Candidate) { c.Sessions = 4 })}, "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ledger := NewLedger()
			if tc.ledger != nil {
				tc.ledger(ledger)
			}
			if d := Place(tc.request, tc.members, ledger); d.Cluster.Name != tc.want {
				t.Errorf("got %q (%s), want %q", d.Cluster.Name, d.Message, tc.want)
			}
		})
	}
}

func TestScoresAreNamed(t *testing.T) {
	r := governed(tiers(inRegions("us"), v1alpha1.OverflowTier{}), func(r *Request) {
		r.PreferredRegions = []string{"us"}
		r.Policy.Strategy = v1alpha1.StrategyBinPack
	})
	d := Explain(r, []Candidate{with(member("m", 1), func(c *Candidate) { c.Sessions = 4 })}, NewLedger())
	scored := func(name, value string) v1alpha1.PlacementScore {
		return v1alpha1.PlacementScore{Name: name, Value: value}
	}
	want := []v1alpha1.PlacementScore{
		scored("PreferredRegion", "1"), scored("Overflow", "1"), scored("PolicyRegion", "0"), scored("PolicyCluster", "1"), scored("AvoidedTaints", "0"),
		scored("BinPack", "8/12"), scored("Slots", "8"), scored("Hash", fmt.Sprint(tieBreak(hashOf(r.UID), hashOf("uid-m")))),
	}
	if diff := cmp.Diff(want, d.Verdicts[0].Scores); diff != "" {
		t.Error(diff)
	}
}
