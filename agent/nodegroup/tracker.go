package nodegroup

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Tracker has the node groups of a member. It is not safe for concurrent use.
type Tracker struct {
	groups []*group

	nodes  map[string]Node
	pools  map[string]NodePool
	claims map[string]*NodeClaim
	// scaler is the last status of cluster-autoscaler.
	scaler *AutoscalerStatus
	// unread is why the objects of Karpenter can't be read, "" once they were.
	unread string
	times  Times
}

// group is a group with what was seen of it.
type group struct {
	Spec
	usual  usual
	outage outage
	// ready is when one of its nodes last became usable.
	ready time.Time
	// usable are the nodes that were usable last.
	usable map[string]bool
	vetoes vetoes
	// nodes are those of the group, ordered by name. They are nil after a change.
	nodes []Node
}

// NewTracker returns a tracker without groups. Until SetKarpenter, the objects of Karpenter are not read.
func NewTracker(times Times) *Tracker {
	times.setDefaults()
	return &Tracker{
		nodes: map[string]Node{}, pools: map[string]NodePool{}, claims: map[string]*NodeClaim{},
		unread: "the agent has not read the NodePools yet", times: times,
	}
}

// SetGroups replaces the groups. One that stays keeps what was seen of it.
func (t *Tracker) SetGroups(all []Spec) {
	known, first := map[string]*group{}, t.groups == nil
	for _, g := range t.groups {
		known[g.Name] = g
	}
	t.groups = nil
	for _, s := range all {
		g := known[s.Name]
		if g == nil || g.KarpenterNodePool != s.KarpenterNodePool || g.ClusterAutoscalerGroup != s.ClusterAutoscalerGroup {
			// Rejections from before a group was declared are not of it; an agent that starts does not know when
			// that was.
			g = &group{usable: map[string]bool{}, vetoes: vetoes{known: !first}}
		}
		if !reflect.DeepEqual(g.Spec, s) {
			g.outage = outage{} // raised limits are tried at once
		}
		g.Spec, g.nodes = s, nil
		t.groups = append(t.groups, g)
	}
	slices.SortFunc(t.groups, func(a, b *group) int { return cmp.Compare(a.Name, b.Name) })
}

// SetNode adds or replaces a node, and returns whether that may change a group.
func (t *Tracker) SetNode(n Node) bool {
	known, ok := t.nodes[n.Name]
	if ok && reflect.DeepEqual(known, n) {
		return false
	}
	t.nodes[n.Name] = n
	was := ok && t.changeGroup(&known)
	return t.changeGroup(&n) || was
}

// DeleteNode removes a node, and returns whether that may change a group.
func (t *Tracker) DeleteNode(name string) bool {
	n, ok := t.nodes[name]
	delete(t.nodes, name)
	return ok && t.changeGroup(&n)
}

// changeGroup records a change of a node, and returns whether it belongs to a group.
func (t *Tracker) changeGroup(n *Node) (belongs bool) {
	for _, g := range t.groups {
		if g.has(n) {
			g.nodes, belongs = nil, true
		}
	}
	return belongs
}

// has reports whether a node belongs to the group.
func (g *group) has(n *Node) bool {
	if g.KarpenterNodePool != "" {
		return n.Labels[LabelNodePool] == g.KarpenterNodePool
	}
	for key, value := range g.Labels {
		if got, ok := n.Labels[key]; !ok || got != value {
			return false
		}
	}
	return len(g.Labels) > 0
}

// Waiting are the Pods that depend on nodes that a group may still add, since the oldest of them was
// found to have no node.
type Waiting struct {
	Pods  []types.UID
	Since time.Time
}

// Groups returns the groups, ordered by name, with the Pods that wait for nodes of each.
func (t *Tracker) Groups(now time.Time, waiting map[string]Waiting) []Group {
	out := make([]Group, 0, len(t.groups))
	var before []*group
	for _, g := range t.groups {
		s := t.survey(g, now)
		g.observe(s, waiting[g.Name], now, &t.times)
		basis, read := t.basisOf(g)
		g.vetoes.follow(basis, read, now)
		out = append(out, g.assess(s, before, now, &t.times))
		before = append(before, g)
	}
	return out
}

// assess returns the state of a group with these nodes.
func (g *group) assess(s *survey, before []*group, now time.Time, times *Times) Group {
	out := Group{Name: g.Name, Nodes: int32(len(s.usable)), Shape: s.shape, Usual: g.usual.time(g.ProvisioningTime), Flexible: g.KarpenterNodePool != ""}
	for i := range s.provisioning {
		if p := &s.provisioning[i]; !g.overdue(p, now, times) {
			out.Provisioning = append(out.Provisioning, p.Provisioning)
		}
	}
	out.Vetoes = g.vetoes.current(now)
	limit := s.limit(&g.Spec)
	out.Most = limit.nodes
	out.Possible = limit.exists && !limit.none
	switch other := g.duplicateOf(before); {
	case s.problem != "":
		out.unknown(ReasonSourceNotFound, s.problem)
	case other != "":
		out.unknown(ReasonDuplicate, "node group "+other+" has the same nodes: remove one of them")
		out.Possible, out.Provisioning = false, nil // they are those of the other
	case !limit.exists:
		out.unknown(ReasonNoLimit, "nothing limits its nodes: set maxNodes, or a limit of its source")
	case limit.more == 0:
		out.State, out.Message = StateFull, limit.message
	case g.outage.reason != "":
		g.outage.describe(&out, s, limit.more, now)
	case s.shape.Allocatable == nil:
		if len(s.provisioning) == 0 {
			out.Growable = min(1, limit.more)
		}
		out.State, out.Reason, out.Message = StateUnknown, ReasonShapeUnknown, "it has had no node yet, and declares no allocatable: one session tries it"
	default:
		out.State, out.Growable = StateAvailable, limit.more
	}
	return out
}

func (g *Group) unknown(reason, message string) {
	g.State, g.Reason, g.Message, g.Growable = StateUnknown, reason, message, 0
}

// duplicateOf returns an earlier group with the same nodes.
func (g *group) duplicateOf(before []*group) string {
	for _, other := range before {
		if other.KarpenterNodePool != "" && other.KarpenterNodePool == g.KarpenterNodePool ||
			other.KarpenterNodePool == "" && g.KarpenterNodePool == "" && maps.Equal(other.Labels, g.Labels) {
			return other.Name
		}
	}
	return ""
}
