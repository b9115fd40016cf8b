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
}

// indexedNode is a node and the index of its vector.
type indexedNode struct {
	*node
	vector int
}

// indexNodes builds the index, with unbound Pods assumed where they fit.
func (m *Model) indexNodes() *nodeIndex {
	assumed := map[string]Resources{}
	for _, g := range m.podGroups() {
		g.assume(m, assumed)
	}
	byKey := map[string]*vector{}
	of := make(map[*node]*vector, len(m.nodes))
	for _, n := range m.nodes {
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
		byKey[v.key], of[n] = v, v
	}
	out := &nodeIndex{templates: len(m.templates), vectors: slices.SortedFunc(maps.Values(byKey), func(a, b *vector) int { return cmp.Compare(a.key, b.key) })}
	index := make(map[*vector]int, len(out.vectors))
	for i, v := range out.vectors {
		index[v] = i
	}
	for n, v := range of {
		out.nodes = append(out.nodes, indexedNode{n, index[v]})
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
			if counts[n.vector] == 0 {
				distinct++
			}
			counts[n.vector]++
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
