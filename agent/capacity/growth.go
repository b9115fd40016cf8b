package capacity

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
)

// failedFor is how long no node, no provisioning node and no node group must cover a Pod until its scale-up
// has failed. Informers are not synchronized: a node may be neither provisioning nor usable for a moment.
const failedFor = 5 * time.Second

// growth has the node groups of the member, and what they may add. The model has one only while node groups
// are declared.
type growth struct {
	*nodegroup.Tracker
	// now is the time of the next evaluation.
	now time.Time
	// read has the sources whose objects were read, or can't be.
	read [sources]bool
	// daemonSets by UID. unread is why they can't be read, and empty once they were.
	daemonSets map[types.UID]DaemonSet
	unread     string
	// declared are the groups as the MemberCluster has them, and autoscaler is the last status of
	// cluster-autoscaler.
	declared   []nodegroup.Spec
	autoscaler *nodegroup.AutoscalerStatus
	// daemonUse is what Pods of DaemonSets use of each node, as a part of Model.used.
	daemonUse map[string]Resources
	// bound are Pods that were bound since the last evaluation.
	bound []types.UID

	// fresh are the states for the next evaluation, if the model still has version freshAt then.
	fresh   []nodegroup.Group
	freshAt uint64
	// queried is when the events of a Pod of a class that depends on a group were last read.
	queried map[classInGroup]time.Time

	// The result of the last evaluation: the states, the same with their nodes, the registered nodes that
	// are not usable yet, and what the unbound Pods depend on.
	states       []nodegroup.Group
	groups       []*futureGroup
	provisioning map[string]bool
	depends      map[types.UID]dependence
}

// newGrowth returns the growth of a model that had no node groups.
func newGrowth(m *Model) *growth {
	g := &growth{
		Tracker: nodegroup.NewTracker(m.groupTimes), now: m.now,
		daemonSets: map[types.UID]DaemonSet{}, unread: "the agent has not read the DaemonSets yet", daemonUse: map[string]Resources{},
	}
	for _, n := range m.nodes {
		g.SetNode(n.ofGroup())
	}
	for _, p := range m.pods {
		g.addDaemon(p, 1)
		g.addBound(nil, p)
	}
	return g
}

// ofGroup returns the node as a Tracker has it.
func (n *Node) ofGroup() nodegroup.Node {
	return nodegroup.Node{
		Name: n.Name, ProviderID: n.ProviderID, Labels: n.Labels, Taints: n.Taints, Created: n.Created, Ready: n.State.Ready,
		Allocatable: nodegroup.Amounts(n.Allocatable), Capacity: nodegroup.Amounts(n.Capacity),
	}
}

// SetNodeGroups replaces the node groups. Without any, what exists is all that is reported.
func (m *Model) SetNodeGroups(all []nodegroup.Spec) {
	if len(all) == 0 && m.growth == nil {
		return
	}
	m.version++
	if len(all) == 0 {
		m.growth = nil
		m.pending.replace(m, nil)
		return
	}
	if m.growth == nil {
		m.growth = newGrowth(m)
	}
	m.growth.declared = all
	m.growth.SetGroups(all)
	m.growth.states, m.growth.groups = nil, nil
}

// withGroups changes the objects that the states of the node groups are determined from, and change returns
// whether it did. Without node groups it does nothing.
func (m *Model) withGroups(change func(*growth) bool) {
	if m.growth != nil && change(m.growth) {
		m.version++
	}
}

// SetDaemonSets sets why the DaemonSets can't be read; empty if they are cached. Until then the groups add no
// node, whose free capacity is not known.
func (g *growth) SetDaemonSets(problem string) { g.unread = problem }

// isRead reports whether the sources of a group were read, or can't be. Nothing of it is known before.
func (g *growth) isRead(s *nodegroup.Spec) bool {
	for kind := range sources {
		if kind.neededBy(s) && !g.read[kind] {
			return false
		}
	}
	return true
}

// reported returns the states of the groups whose sources were read.
func (g *growth) reported() (out []nodegroup.Group) {
	read := map[string]bool{}
	for i := range g.declared {
		read[g.declared[i].Name] = g.isRead(&g.declared[i])
	}
	for i := range g.states {
		if read[g.states[i].Name] {
			out = append(out, g.states[i])
		}
	}
	return out
}

// addDaemon adds what a Pod of a DaemonSet uses, or removes it if sign is -1.
func (g *growth) addDaemon(p *Pod, sign int64) {
	if g == nil || !p.Daemon || p.Done || p.Node == "" {
		return
	}
	used := g.daemonUse[p.Node]
	if used == nil {
		used = Resources{}
		g.daemonUse[p.Node] = used
	}
	if used.add(p.Resources.ofPod(), sign); len(used) == 0 {
		delete(g.daemonUse, p.Node)
	}
}

// addBound records a Pod that was bound since its last state; nil if there was none.
func (g *growth) addBound(last, p *Pod) {
	if g != nil && p.Node != "" && (last == nil || last.Node == "") && p.Times != nil && !p.Times.Bound.IsZero() {
		g.bound = append(g.bound, p.UID)
	}
}

// measure passes the Pods that were bound to the Tracker, in that order. It is not done at their event: that
// of their node may come later.
func (g *growth) measure(m *Model) {
	var bound []*Pod
	for _, uid := range g.bound {
		if p := m.pods[uid]; p != nil && p.Node != "" && p.Times != nil {
			bound = append(bound, p)
		}
	}
	g.bound = nil
	slices.SortFunc(bound, func(a, b *Pod) int { return cmp.Or(a.Times.Bound.Compare(b.Times.Bound), cmp.Compare(a.UID, b.UID)) })
	for _, p := range bound {
		g.Scheduled(p.Node, p.Times.Created, p.Times.Bound)
	}
}

// holds reports whether a node is registered and not usable yet. Its capacity is not free.
func (g *growth) holds(node string) bool { return g != nil && g.provisioning[node] }

// Elapsed sets the time of the next report. It is a change if a node group's state depends on it.
func (m *Model) Elapsed(now time.Time) {
	m.now = now
	g := m.growth
	if g == nil {
		return
	}
	g.now = now
	fresh := g.current(m)
	if g.states == nil || !slices.EqualFunc(fresh, g.states, sameState) || g.failsNow(m) {
		m.version++
	}
	g.fresh, g.freshAt = fresh, m.version
}

// sameState reports whether a group is the same but for its shape, which time does not change.
func sameState(a, b nodegroup.Group) bool {
	state := func(g nodegroup.Group) []any {
		return []any{g.Name, g.Nodes, len(g.Provisioning), g.Growable, g.State, g.Reason, g.Message, g.RetryTime.Unix(), g.Usual, g.Vetoes}
	}
	return reflect.DeepEqual(state(a), state(b))
}

// evaluate determines what the groups are adding and may add now, without the unbound Pods.
func (g *growth) evaluate(m *Model) {
	if g.fresh == nil || g.freshAt != m.version {
		g.fresh = g.current(m)
	}
	g.states, g.fresh = g.fresh, nil
	g.groups, g.provisioning = nil, map[string]bool{}
	unknown := unknownNodes(m)
	for i := range g.states {
		g.groups = append(g.groups, g.future(m, &g.states[i], unknown))
	}
}

// current returns the states of the groups. Until the DaemonSets are read, they add nothing.
func (g *growth) current(m *Model) []nodegroup.Group {
	g.measure(m)
	states := g.Groups(g.now, g.waiting(m))
	if g.unread == "" {
		return states
	}
	for i := range states {
		s := &states[i]
		if s.State != nodegroup.StateUnknown || s.Reason == nodegroup.ReasonShapeUnknown {
			s.State, s.Reason, s.Message = nodegroup.StateUnknown, nodegroup.ReasonSourceNotFound, g.unread
		}
		s.Growable = 0
	}
	return states
}

// future returns a group with its nodes, with DaemonSets and bound Pods deducted. A node of two groups is of
// the first. The unknown nodes have Pods that may be on nodes of the group.
func (g *growth) future(m *Model, s *nodegroup.Group, unknown []string) *futureGroup {
	out := &futureGroup{Group: s, growable: s.Growable}
	daemons := g.daemons(m, s.Shape)
	out.free = less(s.Shape.Allocatable, daemons)
	for i := range s.Provisioning {
		p := &s.Provisioning[i]
		if p.Node != "" && g.provisioning[p.Node] {
			continue
		}
		n := &futureNode{free: less(p.Allocatable, daemons)}
		switch {
		case p.Node != "":
			g.provisioning[p.Node] = true
			n.bind(m, p.Node, g.daemonUse[p.Node])
		case len(unknown) > 0:
			n.bind(m, unknown[0], g.daemonUse[unknown[0]])
			unknown = unknown[1:]
		}
		n.empty = n.free
		if g.unread == "" {
			out.provisioning = append(out.provisioning, n)
		}
	}
	return out
}

// unknownNodes returns the nodes that have Pods and are not known yet, by name: any of them may be one that a
// group is adding. Informers are not synchronized.
func unknownNodes(m *Model) (names []string) {
	for name := range m.used {
		if m.nodes[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// less returns amounts without others, and nil if they are not known.
func less(amounts nodegroup.Amounts, others Resources) Resources {
	if amounts == nil {
		return nil
	}
	return Resources(amounts).minus(others)
}
