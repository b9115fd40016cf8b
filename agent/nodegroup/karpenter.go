package nodegroup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LabelNodePool is the label by which Karpenter marks a node with its NodePool.
const LabelNodePool = "karpenter.sh/nodepool"

// NodePool is the part of a Karpenter NodePool that a Tracker needs.
type NodePool struct {
	Name         string
	Labels       map[string]string
	Requirements []Requirement
	Taints       []corev1.Taint
	// Limits of all its nodes together, of resources; MaxNodes of their number.
	Limits   Amounts
	MaxNodes *int32
	// Problem is why it adds no nodes: it is not Ready, has a fixed number of them, or is being deleted.
	Problem string
}

// NodeClaim is the part of a Karpenter NodeClaim that a Tracker needs.
type NodeClaim struct {
	Name, NodePool string
	// Node is its name once it has registered, and ProviderID that of its instance once it was launched.
	Node, ProviderID string
	Created          time.Time
	// Launched is set once the cloud has provided the node, Initialized once it is usable.
	Launched, Initialized bool
	// Message of the condition Launched that is not True.
	Message  string
	Deleting bool
	// Allocatable and Capacity of the node, nil before it was launched.
	Allocatable, Capacity Amounts
}

// SetKarpenter sets the error with which the objects of Karpenter can't be read; empty if they are cached.
func (t *Tracker) SetKarpenter(problem string) { t.unread = problem }

// SetNodePool adds or replaces a NodePool.
func (t *Tracker) SetNodePool(p NodePool) { t.pools[p.Name] = p }

// DeleteNodePool removes a NodePool.
func (t *Tracker) DeleteNodePool(name string) { delete(t.pools, name) }

// SetNodeClaim adds or replaces a NodeClaim.
func (t *Tracker) SetNodeClaim(c NodeClaim) {
	t.claims[c.Name] = &c
	if c.Launched {
		t.ofPool(c.NodePool, func(g *group) { g.outage.launched() })
	}
}

// DeleteNodeClaim removes a NodeClaim. One that was never launched is a failure: Karpenter deletes it when
// the cloud has no capacity for it.
func (t *Tracker) DeleteNodeClaim(name string, now time.Time) {
	c := t.claims[name]
	delete(t.claims, name)
	if c != nil && !c.Launched {
		t.ofPool(c.NodePool, func(g *group) { g.outage.failedLaunch(c.Message, now) })
	}
}

func (t *Tracker) ofPool(pool string, do func(*group)) {
	for _, g := range t.groups {
		if g.KarpenterNodePool == pool {
			do(g)
		}
	}
}

// surveyKarpenter adds the nodes and the limits of the group's NodePool.
func (t *Tracker) surveyKarpenter(g *group, s *survey, nodes []Node) {
	pool, ok := t.pools[g.KarpenterNodePool]
	switch {
	case t.unread != "":
		s.problem = t.unread
	case !ok:
		s.problem = fmt.Sprintf("the member has no NodePool %q", g.KarpenterNodePool)
	case pool.Problem != "":
		s.problem = fmt.Sprintf("NodePool %s %s", pool.Name, pool.Problem)
	}
	s.most, s.limits = pool.MaxNodes, pool.Limits
	s.shape.Labels = map[string]string{}
	maps.Copy(s.shape.Labels, pool.Labels)
	maps.Copy(s.shape.Labels, g.Labels)
	s.shape.Labels[LabelNodePool] = g.KarpenterNodePool
	s.shape.Taints, s.shape.Requirements, s.shape.chosen = slices.Concat(pool.Taints, g.Taints), pool.Requirements, isChosen
	s.learn(nodes)
	claims := t.claimsOf(g.KarpenterNodePool)
	for _, c := range claims {
		s.learnFrom(c)
	}
	names, unclaimed := nodesOfClaims(claims, nodes)
	for i, c := range claims {
		s.addClaim(c, names[i])
	}
	for i := range nodes {
		if n := &nodes[i]; unclaimed[n.Name] {
			s.have++
			s.use(n.Capacity)
			if n.Ready {
				s.usable = append(s.usable, n.Name)
			}
		}
	}
}

// claimsOf returns the NodeClaims of a NodePool, the oldest first.
func (t *Tracker) claimsOf(pool string) []*NodeClaim {
	var out []*NodeClaim
	for _, c := range t.claims {
		if c.NodePool == pool {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *NodeClaim) int {
		if order := a.Created.Compare(b.Created); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// learnFrom takes the shape of a NodeClaim that was launched, before any node is usable.
func (s *survey) learnFrom(c *NodeClaim) {
	if s.shape.Allocatable == nil && len(c.Allocatable) > 0 {
		s.shape.Allocatable, s.shape.Learned, s.size = c.Allocatable, true, c.Capacity
	}
}

// nodesOfClaims returns the name of each NodeClaim's node, empty if it has none yet, and the nodes without a
// NodeClaim. A node may be known before its NodeClaim names it: it has the ID of the claim's instance then, and
// otherwise counts as that of any NodeClaim that may have been launched since it was read. No node is both a
// usable one and one that is being added.
func nodesOfClaims(claims []*NodeClaim, nodes []Node) (names []string, unclaimed map[string]bool) {
	names, unclaimed = make([]string, len(claims)), map[string]bool{}
	for i := range nodes {
		unclaimed[nodes[i].Name] = true
	}
	claim := func(i int, node string) {
		names[i] = node
		delete(unclaimed, node)
	}
	for i, c := range claims {
		if c.Node != "" {
			claim(i, c.Node)
		}
	}
	for _, mayBe := range []func(*NodeClaim, *Node) bool{
		func(c *NodeClaim, n *Node) bool { return c.ProviderID != "" && c.ProviderID == n.ProviderID },
		func(c *NodeClaim, n *Node) bool { return c.ProviderID == "" && !n.Created.Before(c.Created) },
	} {
		for i, c := range claims {
			at := slices.IndexFunc(nodes, func(n Node) bool { return unclaimed[n.Name] && mayBe(c, &n) })
			if names[i] == "" && at >= 0 {
				claim(i, nodes[at].Name)
			}
		}
	}
	return names, unclaimed
}

// addClaim counts a NodeClaim: one that is being deleted still counts for the limits, but adds no node.
func (s *survey) addClaim(c *NodeClaim, node string) {
	s.have++
	if size := c.Capacity; len(size) > 0 {
		s.use(size)
	} else {
		s.use(s.size)
	}
	switch {
	case c.Deleting:
	case c.Initialized:
		s.usable = append(s.usable, c.Node)
	default:
		allocatable := c.Allocatable
		if len(allocatable) == 0 {
			allocatable = s.shape.Allocatable
		}
		p := s.provision(c.Name, node, allocatable, c.Created)
		p.launched, p.message = c.Launched, c.Message
	}
}

// isChosen reports whether Karpenter chooses the value of a label for each node, if neither its NodePool nor
// the group names the label.
func isChosen(key string) bool {
	switch key {
	case corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelArchStable, corev1.LabelOSStable,
		corev1.LabelInstanceTypeStable, corev1.LabelHostname, "karpenter.sh/capacity-type":
		return true
	}
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasPrefix(domain, "karpenter.k8s.") || domain == "karpenter.azure.com" || domain == "karpenter.kwok.sh"
}
