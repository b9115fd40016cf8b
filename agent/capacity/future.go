package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
)

// futureGroup is a node group with the nodes that it is adding and may add.
type futureGroup struct {
	*nodegroup.Group
	// free is what an empty node has besides DaemonSets; nil if it is not known.
	free Resources
	// provisioning nodes, and those that must be added for unbound Pods.
	provisioning, opened []*futureNode
	// growable is how many more may be added.
	growable int32
	// probed is set if one of the opened nodes is a probe.
	probed bool
}

// futureNode is a node that is not usable yet.
type futureNode struct {
	// labels of a registered node, nil of another.
	labels map[string]string
	// free is what it has besides DaemonSets and the Pods that were placed on it. It is nil if its size is not
	// known: it then takes one Pod, with which it is taken.
	free  Resources
	taken bool
	// empty is free before unbound Pods were placed.
	empty Resources
}

// bind deducts what is bound to a registered node already. What its DaemonSets' Pods use was deducted before.
func (n *futureNode) bind(m *Model, node string, daemons Resources) {
	if known := m.nodes[node]; known != nil {
		n.labels = known.Labels
	}
	used := m.used[node].without(daemons)
	if n.taken = len(used) > 0; n.free != nil {
		n.free = n.free.minus(used)
	}
}

// take places at most so many Pods on the node, and returns how many.
func (n *futureNode) take(p *podGroup, most int) int {
	if n.free == nil {
		if n.taken || most == 0 {
			return 0
		}
		n.taken = true
		return 1
	}
	times := min(p.demand.timesIn(n.free), int64(most))
	if times > 0 {
		n.free = n.free.minus(nil)
		n.free.add(p.resources, -times)
	}
	return int(times)
}

// admits reports whether a Pod may be scheduled to a node of a shape that has these labels, whatever is free.
func (c *constraints) admits(s *nodegroup.Shape, known map[string]string) bool {
	has := labelsOf(s, known)
	return c.selectsBy(has) && c.matchTopologyBy(has) && untolerated(s.Taints, c.tolerations, false) == nil
}

// labelsOf returns whether a node of a shape can have a label, if it has these labels already.
func labelsOf(s *nodegroup.Shape, known map[string]string) func(key, value string) bool {
	return func(key, value string) bool {
		if got, ok := known[key]; ok {
			return got == value
		}
		return s.Admits(key, value)
	}
}

func (c *constraints) selectsBy(has func(key, value string) bool) bool {
	for key, value := range c.selector {
		if !has(key, value) {
			return false
		}
	}
	return true
}

func (c *constraints) matchTopologyBy(has func(key, value string) bool) bool {
	return len(c.topologies) == 0 || slices.ContainsFunc(c.topologies, func(term corev1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions,
			func(e corev1.TopologySelectorLabelRequirement) bool {
				return !slices.ContainsFunc(e.Values, func(value string) bool { return has(e.Key, value) })
			})
	})
}

// probes reports whether a Pod may be placed on a node of the group although none is known to be large enough:
// the group has had no node yet, or its autoscaler chooses the size for each Pod.
func (g *futureGroup) probes(d demand) bool {
	return g.free == nil || g.Shape.Learned && g.Flexible && d.timesIn(g.free) == 0
}

// fits reports whether a node that the group may add can hold a Pod.
func (g *futureGroup) fits(d demand) bool { return g.probes(d) || d.timesIn(g.free) > 0 }

// placeProvisioning places Pods on the nodes that the group is adding, and calls placed with each.
func (g *futureGroup) placeProvisioning(p *podGroup, owners []types.UID, placed func(types.UID)) (left []types.UID) {
	for _, n := range g.provisioning {
		if len(owners) == 0 {
			return nil
		}
		if n.labels != nil && !p.admits(g.Shape, n.labels) {
			continue
		}
		count := n.take(p, len(owners))
		for _, owner := range owners[:count] {
			placed(owner)
		}
		owners = owners[count:]
	}
	return owners
}

// placeGrowable places Pods on nodes that the group may add: on those that others need already, and then on
// more of them.
func (g *futureGroup) placeGrowable(p *podGroup, owners []types.UID, placed func(types.UID)) (left []types.UID) {
	for i := 0; len(owners) > 0; i++ {
		if i == len(g.opened) && !g.open(p.demand) {
			return owners
		}
		count := g.opened[i].take(p, len(owners))
		for _, owner := range owners[:count] {
			placed(owner)
		}
		owners = owners[count:]
	}
	return nil
}

// open adds a node for a Pod, and returns false if the group can't.
func (g *futureGroup) open(d demand) bool {
	probe := g.probes(d)
	if g.growable == 0 || probe && g.probed || !g.fits(d) {
		return false
	}
	g.growable--
	n := &futureNode{}
	if probe {
		g.probed = true
	} else {
		n.free = g.free
	}
	g.opened = append(g.opened, n)
	return true
}

// vetoes reports whether the group's autoscaler adds no node for a class of Pods.
func (g *futureGroup) vetoes(c nodegroup.Class) bool {
	_, vetoed := g.Vetoes[c]
	return vetoed
}

// mayAddNode reports whether a node group can hold a Pod on a node that it is adding, or may add.
func (m *Model) mayAddNode(c *constraints, d demand, class nodegroup.Class) bool {
	if m.growth == nil {
		return false
	}
	if m.growth.groups == nil {
		m.growth.evaluate(m) // they have changed since the last report
	}
	return m.growth.mayAdd(c, d, class)
}

// mayAdd reports whether a node that a group is adding, or may add, can hold a Pod, whatever other
// unbound Pods need.
func (g *growth) mayAdd(c *constraints, d demand, class nodegroup.Class) bool {
	return slices.ContainsFunc(g.groups, func(f *futureGroup) bool {
		if f.Group.Growable > 0 && !f.vetoes(class) && f.fits(d) && c.admits(f.Shape, nil) {
			return true
		}
		return slices.ContainsFunc(f.provisioning, func(n *futureNode) bool {
			return (n.empty == nil || d.timesIn(n.empty) > 0) && c.admits(f.Shape, n.labels)
		})
	})
}
