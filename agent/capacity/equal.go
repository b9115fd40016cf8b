package capacity

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Most events of nodes and Pods change nothing that counts: heartbeats, readiness, other
// owners' annotations. What is equal costs no report.

// equal reports whether nothing that counts differs.
func (n *Node) equal(o *Node) bool {
	return n.Open == o.Open && n.Ready == o.Ready && n.ReadySince.Equal(o.ReadySince) && n.Images == o.Images && maps.Equal(n.Labels, o.Labels) &&
		maps.Equal(n.Allocatable, o.Allocatable) &&
		slices.EqualFunc(n.Taints, o.Taints, func(a, b corev1.Taint) bool {
			return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
		})
}

func (p *Pod) equal(o *Pod) bool {
	return p.UID == o.UID && p.Session == o.Session && p.Node == o.Node && p.Done == o.Done &&
		maps.Equal(p.Resources, o.Resources) && maps.Equal(p.NodeSelector, o.NodeSelector) &&
		slices.EqualFunc(p.Tolerations, o.Tolerations, func(a, b corev1.Toleration) bool {
			return a.Key == b.Key && a.Operator == b.Operator && a.Value == b.Value && a.Effect == b.Effect
		})
}
