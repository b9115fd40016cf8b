package capacity

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"
)

// kind is claims that are alike: they are landed together.
type kind struct {
	key string
	// resources of one, and the same as a demand. Of a Pod that there is they hold
	// the overhead of its runtime class already.
	resources Resources
	demand    demand
	constraints
	count int
}

// kindsOf groups claims; the largest come first, since they find room least
// easily, and the order depends on nothing but the claims.
func (m *Model) kinds() []*kind {
	kinds := map[string]*kind{}
	for _, c := range m.unbound {
		w := m.wishesOf(c)
		key := c.resources.key() + w.key()
		if kinds[key] == nil {
			resources := c.resources.plus(m.runtimeClasses[w.runtimeClass].Overhead)
			kinds[key] = &kind{key: key, resources: resources, demand: resources.demand(), constraints: m.constraintsOf(w)}
		}
		kinds[key].count++
	}
	return slices.SortedFunc(maps.Values(kinds), func(a, b *kind) int { return cmp.Compare(b.key, a.key) })
}

// wishesOf a claim are its own, and where its session's home goes: a Pod does not
// say itself which class that is of.
func (m *Model) wishesOf(c *claim) wishes {
	w := c.wishes
	s := m.sessions[c.session]
	if w.home || s == nil {
		return w
	}
	for _, uid := range slices.Sorted(maps.Keys(s.assignments)) {
		if a := m.assignments[uid]; a.Home {
			w.home, w.storageClass = true, a.StorageClass
			return w
		}
	}
	return w
}

func (w *wishes) key() string {
	key := fmt.Sprintf("%q,%t%q,", w.runtimeClass, w.home, w.storageClass)
	for _, name := range slices.Sorted(maps.Keys(w.selector)) {
		key += fmt.Sprintf("%q=%q,", name, w.selector[name])
	}
	for _, t := range w.tolerations {
		key += fmt.Sprintf("%q%q%q%q,", t.Key, t.Operator, t.Value, t.Effect)
	}
	return key
}

// land the claims of a kind, each on the node where it fits most often.
func (k *kind) land(m *Model, settled map[string]Resources) {
	var open roomiest
	for _, n := range m.nodes {
		if !k.allow(&n.Node) {
			continue
		}
		free, ok := settled[n.Name]
		if !ok {
			free = m.left(n)
		}
		if times := k.demand.timesIn(free); times > 0 {
			open = append(open, landing{n.Name, times, free})
		}
	}
	heap.Init(&open)
	for range k.count {
		if len(open) == 0 {
			return
		}
		l := &open[0]
		if _, ok := settled[l.node]; !ok {
			l.free = maps.Clone(l.free)
			settled[l.node] = l.free
		}
		l.free.add(k.resources, -1)
		if l.times = k.demand.timesIn(l.free); l.times > 0 {
			heap.Fix(&open, 0)
		} else {
			heap.Pop(&open)
		}
	}
}

// landing is a node where a claim fits so many times.
type landing struct {
	node  string
	times int64
	free  Resources
}

// roomiest is a heap with the node with the most room first, then by name.
type roomiest []landing

func (h roomiest) Len() int { return len(h) }
func (h roomiest) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].times, h[i].times), cmp.Compare(h[i].node, h[j].node)) < 0
}
func (h roomiest) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *roomiest) Push(x any)   { *h = append(*h, x.(landing)) }
func (h *roomiest) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
