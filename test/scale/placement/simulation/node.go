package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

// podsPerNode is the kubelet's default.
const podsPerNode = 110

// What the templates request by default: slots are reported for these sizes, and
// buckets for every size.
var (
	deskSize        = trace.Size{CPU: 1000, Memory: 2 << 10}
	workstationSize = trace.Size{CPU: 4000, Memory: 16 << 10, GPU: 1}
)

// node is a node of a member with its Pods.
type node struct {
	trace.Node
	used   trace.Size
	pods   []*pod
	losses int
}

// pod is a session's Pod, or another.
type pod struct {
	uid    types.UID
	size   trace.Size
	node   *node
	copied *copied // nil for another Pod
	// runs is how long another Pod runs, once it has a node.
	runs time.Duration
	gone bool
}

func (m *member) addNode(n trace.Node) {
	added := &node{Node: n}
	m.nodes = append(m.nodes, added)
	m.setNode(added)
}

func (m *member) node(name string) *node {
	return m.nodes[slices.IndexFunc(m.nodes, func(n *node) bool { return n.Name == name })]
}

func (m *member) setNode(n *node) {
	allocatable := capacity.Resources(resourcesOf(n.Size))
	allocatable[corev1.ResourcePods] = podsPerNode
	node := capacity.Node{Name: n.Name, Allocatable: allocatable, Open: n.losses == 0}
	if n.GPU > 0 {
		node.Taints = []corev1.Taint{gpuTaint}
	}
	m.model.SetNode(node)
}

// fits reports whether the free resources of a node hold a size.
func fits(s trace.Size, free map[string]int64) bool {
	return s.CPU <= free[string(corev1.ResourceCPU)] && s.Memory*mebibyte <= free[string(corev1.ResourceMemory)] &&
		s.GPU <= free[string(gpuResource)] && free[string(corev1.ResourcePods)] > 0
}

// takes reports whether a Pod of a size can be bound to the node now.
func (n *node) takes(s trace.Size) bool {
	return n.losses == 0 && len(n.pods) < podsPerNode && (n.GPU == 0 || s.GPU > 0) &&
		n.used.CPU+s.CPU <= n.CPU && n.used.Memory+s.Memory <= n.Memory && n.used.GPU+s.GPU <= n.GPU
}

// spare returns the score of kube-scheduler's LeastAllocated: the mean of the shares
// of CPU and memory that stay free.
func (n *node) spare(s trace.Size) float64 {
	return (1-float64(n.used.CPU+s.CPU)/float64(n.CPU))/2 + (1-float64(n.used.Memory+s.Memory)/float64(n.Memory))/2
}

func (n *node) use(s trace.Size, sign int64) {
	n.used.CPU += sign * s.CPU
	n.used.Memory += sign * s.Memory
	n.used.GPU += sign * s.GPU
}

// schedule binds a Pod to the node with the highest score, the first of equals, or
// leaves it pending.
func (m *member) schedule(p *pod) {
	if !m.bind(p) {
		m.pending = append(m.pending, p)
		m.setPod(p)
	}
}

func (m *member) bind(p *pod) bool {
	var best *node
	for _, n := range m.nodes {
		if n.takes(p.size) && (best == nil || n.spare(p.size) > best.spare(p.size)) {
			best = n
		}
	}
	if best == nil {
		return false
	}
	p.node = best
	best.pods = append(best.pods, p)
	best.use(p.size, 1)
	m.setPod(p)
	if p.copied != nil {
		m.started(p.copied)
		return true
	}
	node := best
	m.after(p.runs, func() {
		if p.node == node && !p.gone {
			m.remove(p)
		}
	})
	return true
}

func (m *member) setPod(p *pod) {
	pod := capacity.Pod{UID: p.uid, Resources: capacity.Resources(resourcesOf(p.size)), PodSpec: capacity.PodSpec{Tolerations: tolerations(p.size)}}
	if p.copied != nil {
		pod.Session = p.copied.session.uid
	}
	if p.node != nil {
		pod.Node = p.node.Name
	}
	m.model.SetPod(pod)
	m.changed()
}

// remove deletes a Pod; pending Pods are scheduled again.
func (m *member) remove(p *pod) {
	p.gone = true
	m.model.DeletePod(p.uid)
	m.changed()
	if p.node == nil {
		m.pending = slices.DeleteFunc(m.pending, func(o *pod) bool { return o == p })
		return
	}
	p.node.pods = slices.DeleteFunc(p.node.pods, func(o *pod) bool { return o == p })
	p.node.use(p.size, -1)
	m.scheduleAgain()
}

// scheduleAgain tries the pending Pods, the oldest first.
func (m *member) scheduleAgain() {
	m.pending = slices.DeleteFunc(m.pending, m.bind)
}

// loseNode loses a node with its Pods, which their owners recreate.
func (m *member) loseNode(n *node) {
	n.losses++
	m.setNode(n)
	m.changed()
	for _, p := range slices.Clone(n.pods) {
		c := p.copied
		if c != nil {
			c.left = max(c.left-(m.now-c.since), time.Second)
		}
		m.remove(p)
		if c != nil {
			m.makePod(c)
			continue
		}
		m.schedule(&pod{uid: m.newUID(), size: p.size, runs: p.runs})
	}
}

func (m *member) regainNode(n *node) {
	n.losses--
	m.setNode(n)
	m.changed()
	m.scheduleAgain()
}
