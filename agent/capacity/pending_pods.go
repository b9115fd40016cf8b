package capacity

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
)

// podGroup is an equivalence class of unbound Pods, which are assumed together.
type podGroup struct {
	key podKey
	// resources of one Pod with the overhead of its runtime class, and the same as a demand.
	resources Resources
	demand    demand
	constraints
	count int
	// owners are the Pods and assignments, the oldest Pods first, if the member has node groups.
	owners []types.UID
}

// podKey identifies an equivalence class of unbound Pods.
type podKey struct {
	// requires has the resources and the constraints.
	requires string
	// class by which autoscalers decide about the Pods, if the member has node groups.
	class nodegroup.Class
}

func (k podKey) compare(o podKey) int {
	return cmp.Or(cmp.Compare(k.requires, o.requires), cmp.Compare(k.class.Template, o.class.Template),
		cmp.Compare(k.class.Revision, o.class.Revision), cmp.Compare(k.class.Requests, o.class.Requests))
}

// keyedPod is the key of a Pod and its spec, with the storage class of its session's home. They depend on the
// assignment of the session, if it has one, and on whether there are node groups.
type keyedPod struct {
	of      *Assignment
	classed bool
	key     podKey
	spec    PodSpec
}

// podGroups groups the unbound Pods. The largest come first, since they fit on the fewest
// nodes, and the order depends only on the Pods.
func podGroups(m *Model) []*podGroup {
	groups := map[podKey]*podGroup{}
	for owner, c := range m.unbound {
		if m.growth != nil && m.growth.deducts(m.pods[owner]) {
			continue
		}
		keyed := c.keyIn(m.sessions[c.session], m.growth != nil)
		g := groups[keyed.key]
		if g == nil {
			resources := c.resources.plus(m.runtimeClasses[keyed.spec.RuntimeClass].Overhead)
			g = &podGroup{key: keyed.key, resources: resources, demand: resources.demand(), constraints: m.constraintsOf(keyed.spec)}
			groups[keyed.key] = g
		}
		g.count++
		if m.growth != nil {
			g.owners = append(g.owners, owner)
		}
	}
	for _, g := range groups {
		slices.SortFunc(g.owners, byAge(m.pods))
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *podGroup) int { return b.key.compare(a.key) })
}

// byAge orders Pods by age, and assignments without a Pod after them.
func byAge(pods map[types.UID]*Pod) func(a, b types.UID) int {
	created := func(uid types.UID) int64 {
		if p := pods[uid]; p != nil && p.Times != nil {
			return p.Times.Created.Unix()
		}
		return math.MaxInt64
	}
	return func(a, b types.UID) int { return cmp.Or(cmp.Compare(created(a), created(b)), cmp.Compare(a, b)) }
}

// deducts reports whether a Pod is that of a DaemonSet for a node that is not usable yet: it was deducted from
// the shape of the node.
func (g *growth) deducts(p *Pod) bool {
	return p != nil && p.Times != nil && g.holds(p.Times.Node)
}

// class returns the class by which autoscalers decide about the Pod.
func (a *Assignment) class() nodegroup.Class {
	return nodegroup.Class{Template: a.Template, Revision: a.Revision, Requests: a.Resources.key()}
}

// keyIn returns the key of a Pod of a session, nil for other Pods, and its spec.
func (u *unboundPod) keyIn(s *session, classed bool) *keyedPod {
	a, only := s.current()
	if only && u.keyed != nil && u.keyed.of == a && u.keyed.classed == classed {
		return u.keyed
	}
	out := &keyedPod{of: a, classed: classed, spec: u.specIn(s)}
	out.key.requires = u.resources.key() + out.spec.key()
	if a != nil && classed {
		out.key.class = a.class()
	}
	if only {
		u.keyed = out
	}
	return out
}

// current returns the assignment of a session that is to run, nil if there is none, and whether it is the only one.
// Autoscalers' events about Pods of other owners are not read.
func (s *session) current() (found *Assignment, only bool) {
	if s == nil {
		return nil, true
	}
	for _, a := range s.assignments {
		if found == nil || found.Idle && !a.Idle || found.Idle == a.Idle && a.UID < found.UID {
			found = a
		}
	}
	return found, len(s.assignments) <= 1
}

// specIn returns the Pod's spec with the storage class of its session's home, which a Pod
// does not name.
func (u *unboundPod) specIn(s *session) PodSpec {
	spec := u.PodSpec
	if spec.Home || s == nil {
		return spec
	}
	for _, uid := range slices.Sorted(maps.Keys(s.assignments)) {
		if a := s.assignments[uid]; a.Home {
			spec.Home, spec.StorageClass = true, a.StorageClass
			return spec
		}
	}
	return spec
}

func (s *PodSpec) key() string {
	key := fmt.Sprintf("%q,%t%q,%q,", s.RuntimeClass, s.Home, s.StorageClass, s.NodeSelector)
	for _, t := range s.Tolerations {
		key += fmt.Sprintf("%q%q%q%q,", t.Key, t.Operator, t.Value, t.Effect)
	}
	return key
}

// assume assigns the Pods of a group as kube-scheduler does by default, each to the node
// where it fits most often, and sets what is free on these nodes. It returns how many fit: one
// that fits nowhere uses nothing.
func (g *podGroup) assume(m *Model, assumed map[string]Resources) int {
	var open mostFree
	for _, n := range m.nodes {
		if !g.allow(&n.Node) || m.growth.holds(n.Name) {
			continue
		}
		free, ok := assumed[n.Name]
		if !ok {
			free = n.freeAfter(m.used[n.Name])
		}
		if times := g.demand.timesIn(free); times > 0 {
			open = append(open, candidate{n.Name, times, free})
		}
	}
	heap.Init(&open)
	for i := range g.count {
		if len(open) == 0 {
			return i
		}
		l := &open[0]
		if _, ok := assumed[l.node]; !ok {
			l.free = maps.Clone(l.free)
			assumed[l.node] = l.free
		}
		l.free.add(g.resources, -1)
		if l.times = g.demand.timesIn(l.free); l.times > 0 {
			heap.Fix(&open, 0)
		} else {
			heap.Pop(&open)
		}
	}
	return g.count
}

// candidate is a node on which a Pod fits.
type candidate struct {
	node  string
	times int64
	free  Resources
}

// mostFree is a heap of nodes by free capacity, the most first, then by name.
type mostFree []candidate

func (h mostFree) Len() int { return len(h) }
func (h mostFree) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].times, h[i].times), cmp.Compare(h[i].node, h[j].node)) < 0
}
func (h mostFree) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *mostFree) Push(x any)   { *h = append(*h, x.(candidate)) }
func (h *mostFree) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
