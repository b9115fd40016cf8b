package capacity

import (
	"cmp"
	"maps"
	"slices"
)

// nodeIndex groups nodes by their free capacity at the time of one report, so that each
// template only has to count.
type nodeIndex struct {
	// vectors are the distinct ones, ordered by key.
	vectors []*vector
	nodes   []indexedNode
	// templates is the number of the model's templates.
	templates int
	// groups are the node groups with the nodes that they are adding and may add.
	groups []*futureGroup
	// assumed is what is free on the nodes that unbound Pods are assumed on.
	assumed map[string]Resources
	// futures are the distinct vectors of their nodes, by key.
	futures map[string]*vector
}

// indexedNode is a node and its vector.
type indexedNode struct {
	*node
	*vector
}

// indexNodes builds the index, with unbound Pods assumed where they fit. Nodes that are not usable yet are
// not in it.
func indexNodes(m *Model) *nodeIndex {
	assumed := settle(m)
	out := &nodeIndex{nodes: make([]indexedNode, 0, len(m.nodes)), templates: len(m.templates), assumed: assumed}
	if m.growth != nil {
		out.groups, out.futures = m.growth.groups, map[string]*vector{}
	}
	byKey := map[string]*vector{}
	for _, n := range m.nodes {
		if m.growth.holds(n.Name) {
			continue
		}
		if n.rounded == nil {
			n.rounded = newVector(n.freeAfter(m.used[n.Name]))
		}
		v := n.rounded
		if free, ok := assumed[n.Name]; ok {
			v = newVector(free)
		}
		if known := byKey[v.key]; known != nil {
			v = known
		}
		byKey[v.key] = v
		out.nodes = append(out.nodes, indexedNode{n, v})
	}
	out.vectors = slices.SortedFunc(maps.Values(byKey), func(a, b *vector) int { return cmp.Compare(a.key, b.key) })
	for i, v := range out.vectors {
		v.index = i
	}
	return out
}

// usable returns the vectors of the nodes that a template may use, and how many of these
// nodes have its image.
func (l *nodeIndex) usable(t *template) (nodes []counted, withImage int32) {
	counts := make([]int32, len(l.vectors))
	distinct := 0
	for _, n := range l.nodes {
		if t.mayUse(n.node, l.templates) {
			if n.Images.has(t.image) {
				withImage++
			}
			if counts[n.index] == 0 {
				distinct++
			}
			counts[n.index]++
		}
	}
	out := make([]counted, 0, distinct)
	for i, count := range counts {
		if count > 0 {
			out = append(out, counted{l.vectors[i], count})
		}
	}
	return out, withImage
}
