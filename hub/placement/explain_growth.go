package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// placedOnGrowth returns the decision for the best candidate if no slot is free there, with the node
// group that adds a node, and why the session waits for it although another member has a free slot.
func placedOnGrowth(q *query, won selection, candidates int, ledger *Ledger) Decision {
	d := placed(q, won, candidates)
	best := &won.best
	d.Kind, d.Reason = best.kind, v1alpha1.ReasonPlacedOnNewNode
	g := ledger.account(best.candidate.UID).evaluate(q.class).growth.fastest(best.kind)
	d.NodeGroup, d.ProvisioningTime = g.name, g.usual
	parts := []string{fmt.Sprintf("%s: no slot is free", best.candidate.Name), g.text(best.kind)}
	parts = append(parts, strings.Join(append(preferences(q, best), rankText(q, won, candidates)), ", "))
	if won.hasFree {
		parts = append(parts, whyNotFree(q, best, &won.free))
	}
	d.Message = strings.Join(parts, "; ")
	return d
}

// text describes what the group adds: node group desktops can add 26 nodes (usually 95 s).
func (g *groupGrowth) text(kind Kind) string {
	verb := "can add"
	if kind == Provisioning {
		verb = "is adding"
	}
	return fmt.Sprintf("node group %s %s %s (usually %s)", g.name, verb, nodes(g.nodes[kind]), usualText(g.usual))
}

// whyNotFree returns which member has a free slot that the session may use, and which preference
// ranks before it.
func whyNotFree(q *query, best, free *score) string {
	where := free.candidate.Name
	if r := free.candidate.Region; r != "" && r != where {
		where += " in " + r
	}
	return fmt.Sprintf("%s has a free slot, but %s", where, ranksBefore(q, best, free))
}

// ranksBefore returns the first preference by which a candidate ranks before another.
func ranksBefore(q *query, best, other *score) string {
	switch {
	case best.region != other.region:
		return "the session prefers region " + best.candidate.Region
	case best.tier != other.tier:
		return fmt.Sprintf("is in tier %d of %s", other.tier+1, q.policyRef())
	case best.policyRegion != other.policyRegion:
		return fmt.Sprintf("%s prefers region %s", q.policyRef(), best.candidate.Region)
	case best.notPreferred != other.notPreferred:
		return "is not among the preferredClusters of " + q.policyRef()
	default:
		return "has a PreferNoSchedule taint that is not tolerated"
	}
}

// slotsByKind describes the slots of a member whose node groups have some, of the groups that the
// request may use.
func (q *query) slotsByKind(by [kinds]int64, g *growth) string {
	free := "no free slot"
	switch n := by[Free]; {
	case n == 1:
		free = "1 free slot"
	case n > 1:
		free = fmt.Sprintf("%d free slots", n)
	}
	parts := []string{free}
	if n := by[Provisioning]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d on provisioning nodes", n))
	}
	if n := by[Growable]; n > 0 {
		total := int64(0)
		for i := range g.groups {
			if g.groups[i].usual <= q.provisioningLimit {
				total += g.groups[i].nodes[Growable]
			}
		}
		parts = append(parts, fmt.Sprintf("%d on %s that can be added", n, nodes(total)))
	}
	if len(parts) > 1 {
		parts[len(parts)-1] += fmt.Sprintf(" (usually %s)", usualText(g.groups[0].usual))
	}
	return strings.Join(parts, ", ")
}

// notAdmitted returns why a request may not use a candidate's slots on nodes that do not exist yet.
func notAdmitted(q *query, c *Candidate, g *growth) lack {
	why := "a session that runs is not moved to a node that must be added first"
	switch {
	case q.FreeOnly:
	case q.admitsFreeOnly(c):
		why = fmt.Sprintf("%s admits only free slots there: capacity of spec.overflow", q.policyRef())
	case q.provisioningLimit == 0:
		why = fmt.Sprintf("%s uses no nodes that must be added first: spec.maxProvisioningTime", q.policyRef())
	default:
		slow := &g.groups[len(g.groups)-1]
		why = fmt.Sprintf("node group %s usually takes %s, longer than maxProvisioningTime of %s", slow.name, usualText(slow.usual), q.policyRef())
	}
	return has("no free slot", why)
}

// states are those of node groups that add no node, in the order in which they are shown.
var states = []v1alpha1.NodeGroupState{v1alpha1.NodeGroupExhausted, v1alpha1.NodeGroupFull, v1alpha1.NodeGroupUnknown}

// addsNone returns why the node groups of a member that could serve a session add no node for it; nil if it has
// no such group. Whether an unknown one could is unknown. The text changes only with the state of the group.
func addsNone(c *Capacity, q *requestClass) *lack {
	growth := c.Templates[q.template].Growth
	for _, state := range states {
		for i := range c.NodeGroups {
			if g := &c.NodeGroups[i]; g.State == state && (state == v1alpha1.NodeGroupUnknown || growth.serves(g.Name, q.shape)) {
				l := g.lack()
				return &l
			}
		}
	}
	return nil
}

func (g *NodeGroup) lack() lack {
	switch {
	case g.State == v1alpha1.NodeGroupFull && g.MaxNodes > 0:
		l := lack{one: "can add no more nodes", many: "can add no more nodes"}
		l.remedy = fmt.Sprintf("node group %s has %d of %d: raise maxNodes of the MemberCluster or end sessions", g.Name, g.Nodes+g.Provisioning, g.MaxNodes)
		return l
	case g.State == v1alpha1.NodeGroupFull:
		l := lack{one: "can add no more nodes", many: "can add no more nodes"}
		l.remedy = fmt.Sprintf("node group %s has reached its limits: raise those of its autoscaler or end sessions", g.Name)
		return l
	}
	l := lack{one: "adds no nodes now", many: "add no nodes now"}
	l.remedy = fmt.Sprintf("node group %s: %s", g.Name, strings.Join(slices.DeleteFunc([]string{g.Reason, g.Message}, func(s string) bool { return s == "" }), ": "))
	if !g.RetryTime.IsZero() {
		l.remedy += "; it is tried again at " + g.RetryTime.UTC().Format("15:04 UTC")
	}
	return l
}

func nodes(n int64) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// usualText returns a usual time in seconds, or beyond five minutes in minutes.
func usualText(d time.Duration) string {
	if d > 5*time.Minute {
		return fmt.Sprintf("%d min", (d+30*time.Second)/time.Minute)
	}
	return fmt.Sprintf("%d s", (d+time.Second/2)/time.Second)
}
