package placement

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestRanking(t *testing.T) {
	in := func(region string) func(*Candidate) { return func(c *Candidate) { c.Region = region } }
	holding := func(n int32) func(*Candidate) { return func(c *Candidate) { c.Sessions = n } }
	plain := func(*Candidate) {}
	strategy := func(s v1alpha1.Strategy) func(*Request) {
		return func(r *Request) { r.Policy = &v1alpha1.PlacementPolicySpec{Strategy: s} }
	}
	weight := func(w, sessions int32) func(*Candidate) {
		return func(c *Candidate) { c.Weight, c.Sessions = ptr(w), sessions }
	}
	for _, tc := range []struct {
		name    string
		session func(*Request)
		members []Candidate // the first should win
	}{
		{"preferred regions count in order, above load",
			func(r *Request) { r.PreferredRegions = []string{"us", "ap"} },
			[]Candidate{with(member("a", 1), func(c *Candidate) { c.Region = "us"; c.Sessions = 50 }),
				with(member("b", 9), in("ap")), with(member("c", 9), in("eu"))}},
		{"the session's preference comes before the policy's",
			func(r *Request) {
				r.PreferredRegions = []string{"us"}
				r.Policy = &v1alpha1.PlacementPolicySpec{PreferredRegions: []string{"eu", "us"}}
			},
			[]Candidate{with(member("a", 1), in("us")), with(member("b", 9), in("eu"))}},
		{"among what the session prefers alike, the policy's preference counts",
			func(r *Request) {
				r.Policy = &v1alpha1.PlacementPolicySpec{PreferredRegions: []string{"eu", "us"}}
			},
			[]Candidate{with(member("a", 1), in("eu")), with(member("b", 9), in("us")), with(member("c", 9), in("ap"))}},
		{"preferred clusters come after regions, before load",
			func(r *Request) {
				r.PreferredRegions = []string{"eu"}
				r.Policy = &v1alpha1.PlacementPolicySpec{PreferredClusters: selecting("tier", "gold")}
			},
			[]Candidate{with(member("a", 1), func(c *Candidate) { c.Labels = map[string]string{"tier": "gold"}; c.Sessions = 7 }),
				member("b", 9), with(member("c", 9), func(c *Candidate) { c.Region = "us"; c.Labels = map[string]string{"tier": "gold"} })}},
		{"a soft taint comes before load", func(*Request) {},
			[]Candidate{with(member("a", 1), holding(50)),
				with(member("b", 9), func(c *Candidate) {
					c.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}}
				})}},
		{"a soft taint that is tolerated does not count",
			func(r *Request) {
				r.ClusterTolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
			},
			[]Candidate{with(member("a", 9), func(c *Candidate) {
				c.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}}
			}), with(member("b", 9), holding(50))}},

		{"LeastLoaded is the default and counts the share used", func(*Request) {},
			[]Candidate{with(member("a", 10), holding(20)), with(member("b", 1), holding(5))}},
		{"LeastLoaded prefers the larger of empty members", func(*Request) {}, []Candidate{member("b", 2), member("a", 1)}},
		{"Spread takes the fewest sessions, whatever the capacity", strategy(v1alpha1.StrategySpread),
			[]Candidate{with(member("a", 1), holding(3)), with(member("b", 90), holding(4))}},
		{"BinPack takes the fullest", strategy(v1alpha1.StrategyBinPack),
			[]Candidate{with(member("a", 1), holding(5)), with(member("b", 1), holding(4)), member("c", 1)}},
		{"BinPack begins with the smallest", strategy(v1alpha1.StrategyBinPack), []Candidate{member("b", 1), member("a", 2)}},
		{"Weighted counts sessions by weight", strategy(v1alpha1.StrategyWeighted),
			[]Candidate{with(member("a", 1), weight(300, 5)), with(member("b", 1), weight(100, 2))}},
		{"Weighted uses a weight of 0 last", strategy(v1alpha1.StrategyWeighted),
			[]Candidate{with(member("a", 1), weight(1, 900)), with(member("b", 1), weight(0, 0))}},
		{"the home beats everything", func(r *Request) {
			r.Home = &v1alpha1.ClusterRef{Name: "a", UID: "uid-a"}
			r.PreferredRegions = []string{"us"}
		}, []Candidate{with(member("a", 1), holding(99)), with(member("b", 9), in("us"))}},
		{"an unknown strategy is LeastLoaded", strategy("Newest"), []Candidate{with(member("b", 1), plain), with(member("a", 1), holding(1))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Place(requestWith(session("s"), tc.session), tc.members, NewLedger())
			if d.Cluster.Name != tc.members[0].Name {
				t.Errorf("got %s, want %s", d.Message, tc.members[0].Name)
			}
		})
	}
}

// burst places n sessions one after the other and returns how many each member
// got.
func burst(n int, strategy v1alpha1.Strategy, members []Candidate) map[string]int {
	ledger, got := NewLedger(), map[string]int{}
	for i := range n {
		r := requestWith(session(fmt.Sprint(i)), func(r *Request) { r.Policy = &v1alpha1.PlacementPolicySpec{Strategy: strategy} })
		d := Place(r, members, ledger)
		if !d.Placed {
			got[""]++
			continue
		}
		ledger.ReserveFor(r.UID, 1, d.Cluster.UID, r.Template, r.Resources)
		for j := range members {
			if members[j].UID == d.Cluster.UID {
				members[j].Sessions++
			}
		}
		got[d.Cluster.Name]++
	}
	return got
}

func TestBursts(t *testing.T) {
	weighing := func(name string, weight int32) Candidate {
		return with(member(name, 100), func(c *Candidate) { c.Weight = ptr(weight) })
	}
	for _, tc := range []struct {
		strategy v1alpha1.Strategy
		members  []Candidate
		want     map[string]int
	}{
		{v1alpha1.StrategyLeastLoaded, []Candidate{member("a", 100), member("b", 50), member("c", 150)}, map[string]int{"a": 100, "b": 50, "c": 150}},
		{v1alpha1.StrategyLeastLoaded, []Candidate{member("a", 10), member("b", 10), member("c", 10)}, map[string]int{"a": 80, "b": 80, "c": 80, "": 60}},
		{v1alpha1.StrategySpread, []Candidate{member("a", 10), member("b", 50), member("c", 150)}, map[string]int{"a": 80, "b": 110, "c": 110}},
		{v1alpha1.StrategyBinPack, []Candidate{member("a", 30), member("b", 10), member("c", 20)}, map[string]int{"a": 60, "b": 80, "c": 160}},
		{v1alpha1.StrategyWeighted, []Candidate{weighing("a", 100), weighing("b", 200), weighing("c", 0)}, map[string]int{"a": 100, "b": 200}},
	} {
		if diff := cmp.Diff(tc.want, burst(300, tc.strategy, tc.members)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.strategy, diff)
		}
	}
}

// Ties break by session as well as by member: no name is favored.
func TestTiesAreShared(t *testing.T) {
	members := []Candidate{member("a", 1), member("b", 1), member("c", 1)}
	got := map[string]int{}
	for i := range 3000 {
		got[Place(requestWith(session("s"), func(r *Request) { r.UID = types.UID(fmt.Sprint("session-", i)) }), members, NewLedger()).Cluster.Name]++
	}
	for name, n := range got {
		if n < 850 || n > 1150 {
			t.Errorf("%s got %d of 3000", name, n)
		}
	}
}
