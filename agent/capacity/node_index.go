package capacity

import (
	"cmp"
	"maps"
	"slices"
)

// landscape is what all nodes have free at the time of one report, so that
// each template only has to count.
type landscape struct {
	// vectors that there are, in the order of their keys.
	vectors []*vector
	nodes   []sited
	// templates that there are.
	templates int
}

// sited is a node and the place of its vector in the landscape.
type sited struct {
	*node
	vector int
}

// survey the nodes, with what is not bound yet landed in thought.
func (m *Model) survey() *landscape {
	settled := m.settle()
	byKey := map[string]*vector{}
	of := make(map[*node]*vector, len(m.nodes))
	for _, n := range m.nodes {
		v := m.rounded(n, settled)
		if known := byKey[v.key]; known != nil {
			v = known
		}
		byKey[v.key], of[n] = v, v
	}
	l := &landscape{templates: len(m.templates), vectors: slices.SortedFunc(maps.Values(byKey), func(a, b *vector) int { return cmp.Compare(a.key, b.key) })}
	place := make(map[*vector]int, len(l.vectors))
	for i, v := range l.vectors {
		place[v] = i
	}
	for n, v := range of {
		l.nodes = append(l.nodes, sited{n, place[v]})
	}
	return l
}

// usable is the vectors of the nodes that a template may use, and how many of
// these nodes have its image.
func (l *landscape) usable(t *template) (nodes []counted, withImage int32) {
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

// rounded is what a node has left once those not bound yet have landed.
func (m *Model) rounded(n *node, settled map[string]Resources) *vector {
	if free, ok := settled[n.Name]; ok {
		return newVector(free)
	}
	if n.rounded == nil {
		n.rounded = newVector(m.left(n))
	}
	return n.rounded
}

// settle lands what is not bound yet, in thought, on the node with the most
// room for it, as kube-scheduler would by default. It returns what is left on
// the nodes that it used. What fits nowhere takes nothing: it waits as it is.
func (m *Model) settle() map[string]Resources {
	settled := map[string]Resources{}
	for _, k := range m.kinds() {
		k.land(m, settled)
	}
	return settled
}
