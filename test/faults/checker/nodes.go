package checker

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
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

// limited reports whether a member has a limit.
func (l nodeLimits) limited(member string) bool {
	_, has := l[member]
	return has
}

// ObserveNode checks that a member has no more nodes than its limit permits: G14. A node that is being
// deleted does not count: another may replace it.
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
		checkNodes(c, now, f.Cluster)
	}
}

// checkNodes reports more nodes than a member's limit permits, as soon as they are observed. While the
// member's watch is interrupted it may show what was added before what was deleted, so that an excess
// counts only if it lasts.
func checkNodes(c *Checker, now time.Time, member string) {
	have, limit := len(c.nodes[member]), c.nodeLimits[member]
	if have <= limit.Nodes || !c.limited(member) {
		return
	}
	about, key := types.UID(member), "nodes/"+member
	text := fmt.Sprintf("nodes of %s: %d, and its limit permits %d", member, have, limit.Nodes)
	if !c.interrupted[member] {
		c.Report(now, 14, about, key, "%s", text)
		return
	}
	c.suspect(now, 14, key, &Suspicion{
		about: about, watches: []string{member}, wait: WatchLag, text: text,
		unexplained: func() bool { return len(c.nodes[member]) > c.nodeLimits[member].Nodes },
	})
}

// suspectSessions opens a suspicion if a member has more sessions that need a slot than fit on the
// nodes that its limit permits: G14. Its API server confirms that: a watch that begins again shows
// what was added before what was deleted.
func suspectSessions(c *Checker, now time.Time, f AssignmentState) {
	member, slots := f.Cluster, 0
	tooMany := func() bool {
		slots = c.nodeLimits[member].Nodes * c.nodeLimits[member].Slots
		return occupied(maps.Values(c.held[member])) > slots
	}
	if !c.limited(member) || !tooMany() {
		return
	}
	c.suspect(now, 14, "sessions/"+member, &Suspicion{
		about: f.Session,
		text: fmt.Sprintf("sessions of %s that need a slot: %d, and the nodes that its limit permits have %d slots",
			member, occupied(maps.Values(c.held[member])), slots),
		unexplained: tooMany,
		Confirm: func(ctx context.Context, o APIReader) (bool, error) {
			held, err := o.Assignments(ctx, member)
			return err == nil && occupied(slices.Values(held)) > slots, err
		},
	})
}

// occupied returns how many assignments need a slot.
func occupied(held iter.Seq[AssignmentState]) (n int) {
	for f := range held {
		if f.occupies() {
			n++
		}
	}
	return n
}

// occupies reports whether an assignment needs a slot. One whose status shows that no node is added for it takes
// none from others.
func (f *AssignmentState) occupies() bool {
	return !f.Suspended && !f.Failed && !f.Deleting && !f.ScaleUpFailed
}
