package capacity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A change that does not affect capacity causes no report, and another does.
func TestOnlyWhatCountsIsAChange(t *testing.T) {
	n := with(machine("a", 4000, 32), func(n *Node) {
		n.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		n.Images = imageSetOf(images("kiosk:1"))
	})
	p := pod("p", "a", resources(1000, 1))
	a := assigned("s", resources(1000, 2))
	m := scene(nodes(n))
	m.SetPod(p)
	m.SetAssignment(a)
	before := m.version
	again := n
	again.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	again.Labels = map[string]string{"name": "a"}
	m.SetNode(again)
	m.SetPod(pod("p", "a", resources(1000, 1)))
	m.SetAssignment(assigned("s", resources(1000, 2)))
	m.DeletePod("never seen")
	if m.version != before {
		t.Error("the same reported again is a change")
	}
	for name, change := range map[string]func(){
		"a node is cordoned":         func() { m.SetNode(with(n, func(n *Node) { n.Open = false })) },
		"a node has another image":   func() { m.SetNode(with(n, func(n *Node) { n.Images = "" })) },
		"a node has other labels":    func() { m.SetNode(with(n, func(n *Node) { n.Labels = nil })) },
		"a node has no taint":        func() { m.SetNode(with(n, func(n *Node) { n.Taints = nil })) },
		"a node has other resources": func() { m.SetNode(with(n, func(n *Node) { n.Allocatable = resources(1, 1) })) },
		"a Pod is bound elsewhere":   func() { m.SetPod(with(p, func(p *Pod) { p.Node = "b" })) },
		"a Pod is done":              func() { m.SetPod(with(p, func(p *Pod) { p.Done = true })) },
		"a Pod requests more":        func() { m.SetPod(with(p, func(p *Pod) { p.Resources = resources(2000, 1) })) },
		"a Pod is selective":         func() { m.SetPod(with(p, func(p *Pod) { p.NodeSelector = map[string]string{"a": "b"} })) },
		"a Pod is tolerant":          func() { m.SetPod(with(p, func(p *Pod) { p.Tolerations = []corev1.Toleration{{Key: "k"}} })) },
		"a Pod is a session's":       func() { m.SetPod(with(p, func(p *Pod) { p.Session = "s" })) },
		"an assignment is idle":      func() { m.SetAssignment(with(a, func(a *Assignment) { a.Idle = true })) },
		"an assignment has a home":   func() { m.SetAssignment(with(a, func(a *Assignment) { a.Home = true })) },
		"a Pod is gone":              func() { m.DeletePod("p") },
		"an assignment is gone":      func() { m.DeleteAssignment(a.UID) },
		"a node is gone":             func() { m.DeleteNode("a") },
	} {
		m.SetNode(n)
		m.SetPod(p)
		m.SetAssignment(a)
		before := m.version
		if change(); m.version == before {
			t.Errorf("%s, and that is no change", name)
		}
	}
}
