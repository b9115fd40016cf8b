package placement

import (
	"slices"

	"pgregory.net/rapid"
)

// changeNodes changes the kind of a node at any time: the autoscaler requests it, it becomes usable, or
// it is reclaimed and would be added again. It lowers the limit of the node group only with a report
// that is delivered at once, since the hub can't count an unreported one.
func (w *world) changeNodes(t *rapid.T) {
	m := rapid.SampledFrom(w.members).Draw(t, "member")
	if !slices.ContainsFunc(m.kinds, func(k Kind) bool { return k != Free }) {
		return
	}
	i := rapid.IntRange(0, len(m.nodes)-1).Draw(t, "node")
	if rapid.Bool().Draw(t, "changes") {
		m.kinds[i] = rapid.SampledFrom([]Kind{Free, Provisioning, Growable}).Draw(t, "kind")
		return
	}
	last := len(m.nodes) - 1
	if last == 0 || m.kinds[last] == Free || w.uses(m, last) {
		return
	}
	m.nodes, m.kinds = m.nodes[:last], m.kinds[:last]
	w.report(m)
	w.deliverAll(m)
}

// uses reports whether anything uses a node of a member, or may still land there.
func (w *world) uses(m *simMember, node int) bool {
	for _, s := range w.sessions {
		if s.member == m && (!s.stored || s.node == node) {
			return true
		}
	}
	return slices.ContainsFunc(m.otherPods, func(l landing) bool { return l.node == node })
}
