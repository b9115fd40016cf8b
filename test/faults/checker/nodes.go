package checker

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// NodeState is what a member's API server holds of a node that its autoscaler adds, from its request
// on.
type NodeState struct {
	Cluster  string
	UID      types.UID
	Name     string
	Deleting bool
}

// NodeLimit limits the sessions of a member whose autoscaler adds nodes.
type NodeLimit struct {
	// Nodes is the maximum number of its nodes.
	Nodes int
	// Slots is the number of sessions that fit on one of them.
	Slots int
}

// nodeLimits are the limits of the members whose autoscalers add nodes, by name. The nodes of other
// members are not limited.
type nodeLimits map[string]NodeLimit

// LimitNodes sets the limit of a member. A higher limit is set before the hub has it, a lower one
// when the member has it.
func (l nodeLimits) LimitNodes(member string, limit NodeLimit) { l[member] = limit }

// ObserveNode checks that a member has no more nodes than its limit permits: G14. A node that is being
// deleted makes way for another one.
func (c *Checker) ObserveNode(now time.Time, f NodeState) {
	c.record(now, types.UID(f.Cluster), f.Cluster+" has node", f)
	if f.Deleting {
		delete(c.nodes[f.Cluster], f.UID)
		return
	}
	if c.nodes[f.Cluster] == nil {
		c.nodes[f.Cluster] = map[types.UID]NodeState{}
	}
	_, known := c.nodes[f.Cluster][f.UID]
	c.nodes[f.Cluster][f.UID] = f
	if !known {
		c.mostNodes[f.Cluster] = max(c.mostNodes[f.Cluster], len(c.nodes[f.Cluster]))
		checkLimit(c, now, types.UID(f.Cluster), f.Cluster, "nodes", tooManyNodes)
	}
}

// tooManyNodes describes that a member has more nodes than its limit permits. It returns "" if it
// does not.
func tooManyNodes(c *Checker, member string) string {
	have, limit := len(c.nodes[member]), c.nodeLimits[member]
	if have <= limit.Nodes {
		return ""
	}
	return fmt.Sprintf("nodes of %s: %d, and its limit permits %d", member, have, limit.Nodes)
}

// tooManySessions describes that a member has more sessions that need a slot than fit on the nodes that its
// limit permits. It returns "" if it does not.
func tooManySessions(c *Checker, member string) string {
	running, limit := 0, c.nodeLimits[member]
	for _, f := range c.held[member] {
		if f.occupies() {
			running++
		}
	}
	if running <= limit.Nodes*limit.Slots {
		return ""
	}
	return fmt.Sprintf("sessions of %s that need a slot: %d, and the nodes that its limit permits have %d slots", member, running, limit.Nodes*limit.Slots)
}

// occupies reports whether an assignment needs a slot.
func (f *AssignmentState) occupies() bool { return !f.Suspended && !f.Failed && !f.Deleting }

// checkLimit reports what exceeds a member's limit, as soon as it is observed. While the member's watch
// is interrupted it may show what was added before what was deleted, so that an excess counts only if
// it lasts.
func checkLimit(c *Checker, now time.Time, about types.UID, member, of string, excess func(*Checker, string) string) {
	if _, limited := c.nodeLimits[member]; !limited {
		return
	}
	text := excess(c, member)
	key := "limit/" + of + "/" + member
	switch {
	case text == "":
	case c.interrupted[member]:
		c.suspect(now, 14, key, &Suspicion{
			about: about, watches: []string{member}, wait: WatchLag, text: text,
			unexplained: func() bool { return excess(c, member) != "" },
		})
	default:
		c.Report(now, 14, about, key, "%s", text)
	}
}
