package nodegroup

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// young is how long a node that is not usable yet counts as provisioning, without a NodeClaim: an older
// one is broken.
const young = 15 * time.Minute

// survey is what exists of a group at one time.
type survey struct {
	// usable are the names of its usable nodes.
	usable       []string
	provisioning []provisioning
	// have counts all nodes, requested ones included; used is the sum of their capacity, where one that
	// is not known has that of the shape.
	have int32
	used Amounts
	// shape is never nil; size is the capacity of a node of it.
	shape *Shape
	size  Amounts
	// most and limits are those of the source; problem is why it can't be used.
	most    *int32
	limits  Amounts
	problem string
	// autoscaled reports whether the group has a current status of cluster-autoscaler.
	autoscaled bool
	// backedOff reports whether its scale-up is in backoff, for the reason backoff.
	backedOff bool
	backoff   string
}

// provisioning is a node that is not usable yet, since it was requested.
type provisioning struct {
	Provisioning
	since time.Time
	// launched reports whether the instance exists. It is always true without a NodeClaim.
	launched bool
	// message is that of the NodeClaim's condition Launched if it is not True.
	message string
}

// survey looks at the nodes of a group.
func (t *Tracker) survey(g *group, now time.Time) *survey {
	s := &survey{shape: &Shape{Labels: g.Labels, Taints: g.Taints, Allocatable: g.Allocatable}, size: g.Allocatable, used: Amounts{}}
	nodes := t.nodesOf(g)
	if g.KarpenterNodePool != "" {
		t.surveyKarpenter(g, s, nodes)
		return s
	}
	s.learn(nodes)
	for i := range nodes {
		s.addNode(&nodes[i], now)
	}
	if g.ClusterAutoscalerGroup != "" {
		t.surveyAutoscaler(g, s, now)
	}
	return s
}

// nodesOf returns the nodes of a group, by name. They must not be changed.
func (t *Tracker) nodesOf(g *group) []Node {
	if g.nodes != nil {
		return g.nodes
	}
	g.nodes = []Node{}
	for _, n := range t.nodes {
		if g.has(&n) {
			g.nodes = append(g.nodes, n)
		}
	}
	slices.SortFunc(g.nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return g.nodes
}

// learn takes the shape of the newest usable node, unless it is declared.
func (s *survey) learn(nodes []Node) {
	if s.shape.Allocatable != nil {
		return
	}
	ready := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !n.Ready })
	if len(ready) == 0 {
		return
	}
	n := slices.MaxFunc(ready, func(a, b Node) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	s.shape.Allocatable, s.shape.Learned, s.size = n.Allocatable, true, n.Capacity
}

// addNode counts a node without a NodeClaim.
func (s *survey) addNode(n *Node, now time.Time) {
	s.have++
	s.use(n.Capacity)
	switch {
	case s.isUsable(n):
		s.usable = append(s.usable, n.Name)
	case now.Sub(n.Created) < young && s.shape.Allocatable != nil:
		s.provision(n.Name, n.Name, s.shape.Allocatable, n.Created)
	}
}

// isUsable reports whether a node is as its group says: Ready, without a taint besides, such as one of
// its startup, and with all of its resources. Plugins of devices register late.
func (s *survey) isUsable(n *Node) bool {
	return n.Ready && !slices.ContainsFunc(n.Taints, s.temporary) && !s.lacks(n)
}

// temporary reports whether a taint keeps Pods away that the group is for. Those that Kubernetes sets on
// a cordoned node or one under pressure are no sign of a node's startup.
func (s *survey) temporary(t corev1.Taint) bool {
	if t.Effect == corev1.TaintEffectPreferNoSchedule || t.Key == corev1.TaintNodeUnschedulable ||
		t.Key == corev1.TaintNodeMemoryPressure || t.Key == corev1.TaintNodeDiskPressure || t.Key == corev1.TaintNodePIDPressure {
		return false
	}
	return !slices.ContainsFunc(s.shape.Taints, func(own corev1.Taint) bool { return own.MatchTaint(&t) })
}

func (s *survey) lacks(n *Node) bool {
	for name, amount := range s.shape.Allocatable {
		if amount > 0 && n.Allocatable[name] == 0 {
			return true
		}
	}
	return false
}

// provision counts a node as provisioning.
func (s *survey) provision(name, node string, allocatable Amounts, since time.Time) *provisioning {
	shape := *s.shape
	shape.Allocatable = allocatable
	s.provisioning = append(s.provisioning, provisioning{
		Provisioning: Provisioning{Name: name, Node: node, Shape: shape}, since: since, launched: true,
	})
	return &s.provisioning[len(s.provisioning)-1]
}

func (s *survey) use(capacity Amounts) {
	for name, amount := range capacity {
		s.used[name] += amount
	}
}

// limit is what limits a group.
type limit struct {
	exists bool
	// none is set if it permits no node at all.
	none bool
	// nodes is the lowest limit of their number, 0 if there is none; more is how many may be added.
	nodes, more int32
	// message says what is reached, if more is 0.
	message string
}

// limit returns how many more nodes the group may have, by its own limit and those of its source.
func (s *survey) limit(g *Spec) limit {
	out := limit{}
	lower := func(more int32, message string) {
		if more = max(more, 0); !out.exists || more < out.more {
			out.more, out.message = more, message
		}
		out.exists = true
	}
	count := func(most *int32, of string) {
		if most == nil {
			return
		}
		out.none = out.none || *most == 0
		lower(*most-s.have, fmt.Sprintf("it has %d of %d nodes: raise %s", s.have, *most, of))
		if out.nodes == 0 || *most < out.nodes {
			out.nodes = *most
		}
	}
	count(g.MaxNodes, "maxNodes of the MemberCluster")
	count(s.most, "the limit of its source")
	for _, name := range slices.Sorted(maps.Keys(s.limits)) {
		left := s.limits[name] - s.used[name]
		text := fmt.Sprintf("its nodes have %s of %s %s: raise the limit of its source",
			v1alpha1.AmountText(name, s.used[name]), v1alpha1.AmountText(name, s.limits[name]), name)
		switch of := s.size[name]; {
		case left <= 0:
			lower(0, text)
		case s.size == nil:
			lower(1, text)
		case of > 0:
			lower(int32(min(left/of, math.MaxInt32)), text)
		}
	}
	return out
}
