package placement

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// overflowFilter requires that the member is in a tier of the policy's overflow, if it has
// one.
var overflowFilter = filter{
	name:    "Overflow",
	applies: func(q *query) bool { return len(q.overflow) > 0 },
	check: func(q *query, c *Candidate, _ *account) bool {
		return len(q.overflow) == 0 || q.tierOf(c, Free) < len(q.overflow)
	},
	explain: func(q *query, _ *Candidate, _ *account) lack {
		what := "in no overflow tier of " + q.policyRef()
		return is(what, "an empty tier at the end of spec.overflow is any cluster")
	},
}

// tierOf returns the first tier of the overflow that a candidate is in and that admits a kind of
// capacity, from 0; the number of tiers if there is none. Every tier admits free slots. Where the
// user's home is, every tier admits all kinds: the session can run nowhere else.
func (q *query) tierOf(c *Candidate, kind Kind) int {
	for i := range q.overflow {
		t := &q.overflow[i]
		if (kind == Free || !t.freeOnly || q.Home != nil) && t.has(c) {
			return i
		}
	}
	return len(q.overflow)
}

// tier is a tier of an overflow, precompiled because it is matched with every candidate.
type tier struct {
	regions []string
	labels  labels.Selector
	// freeOnly is set if it admits only free slots.
	freeOnly bool
}

func tiersOf(overflow []v1alpha1.OverflowTier) []tier {
	if len(overflow) == 0 {
		return nil
	}
	out := make([]tier, len(overflow))
	for i := range overflow {
		t := &overflow[i]
		out[i] = tier{t.Regions, labels.SelectorFromValidatedSet(t.ClusterLabels), t.Capacity == v1alpha1.TierCapacityFree}
	}
	return out
}

func (t *tier) has(c *Candidate) bool {
	return (len(t.regions) == 0 || slices.Contains(t.regions, c.Region)) && t.labels.Matches(labels.Set(c.Labels))
}

// clusterCapFilter requires that the policy has placed fewer sessions in the member than
// its cap per cluster.
var clusterCapFilter = filter{
	name:    "PolicyClusterCap",
	applies: func(q *query) bool { return q.Policy != nil && q.Policy.SessionCaps.PerCluster != nil },
	check: func(q *query, c *Candidate, _ *account) bool {
		return q.Policy == nil || q.Policy.SessionCaps.PerCluster == nil || q.Counts.Clusters[c.UID] < *q.Policy.SessionCaps.PerCluster
	},
	explain: func(q *query, _ *Candidate, _ *account) lack {
		what := fmt.Sprintf("the %d sessions that %s places in a cluster", *q.Policy.SessionCaps.PerCluster, q.policyRef())
		return lack{one: "holds " + what, many: "hold " + what, remedy: "raise spec.sessionCaps.perCluster of the policy"}
	},
}

// policyCapFilter requires that no cap of the policy on all members together is reached.
// Place returns before it; it is for Explain's verdicts on members that otherwise fit.
var policyCapFilter = filter{
	name:    "PolicyCap",
	applies: func(q *query) bool { return q.cap != nil },
	check:   func(q *query, _ *Candidate, _ *account) bool { return q.cap == nil },
	explain: func(q *query, _ *Candidate, _ *account) lack {
		return has("capacity, but "+q.cap.what(q), q.cap.remedy(q))
	},
}

// policyCap is a cap of a policy on all members together.
type policyCap struct {
	// field of spec.sessionCaps, and the scope of the sessions that it counts.
	field, of   string
	count, most int32
}

// capsOf returns a policy's caps on all members together, which it sets.
func (q *query) capsOf(p *v1alpha1.PlacementPolicySpec) []policyCap {
	var out []policyCap
	add := func(field, of string, count int32, most *int32) {
		if most != nil {
			out = append(out, policyCap{field, of, count, *most})
		}
	}
	add("total", "", q.Counts.Total, p.SessionCaps.Total)
	add("perNamespace", " of namespace "+q.Namespace, q.Counts.Namespace, p.SessionCaps.PerNamespace)
	add("perUser", " of user "+q.User, q.Counts.User, p.SessionCaps.PerUser)
	return out
}

func (r *policyCap) what(q *query) string {
	return fmt.Sprintf("%s has placed %d sessions%s, and places at most %d (sessionCaps.%s)", q.policyRef(), r.count, r.of, r.most, r.field)
}

func (r *policyCap) remedy(q *query) string {
	if r.most == 0 {
		return fmt.Sprintf("raise spec.sessionCaps.%s of %s", r.field, q.policyRef())
	}
	return fmt.Sprintf("end one of them, or raise spec.sessionCaps.%s of %s", r.field, q.policyRef())
}
