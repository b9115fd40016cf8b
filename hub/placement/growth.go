package placement

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Kind is a kind of capacity: whether the node of a slot exists.
type Kind uint8

// The kinds, in the order in which they are used.
const (
	// Free slots are on nodes that are usable.
	Free Kind = iota
	// Provisioning slots are on nodes that are being added.
	Provisioning
	// Growable slots are on nodes that a node group may add.
	Growable

	// kinds is their number.
	kinds = 3
)

// String returns the name of the kind, for metrics.
func (k Kind) String() string { return [kinds]string{"free", "provisioning", "growable"}[k] }

// NodeGroup is the state of a node group of a member, as it reports it.
type NodeGroup struct {
	Name string
	// Nodes that are usable, that are being added, and that may still be added.
	Nodes, Provisioning, Growable int32
	// MaxNodes is the most nodes that it may have; 0 if only resources limit it.
	MaxNodes int32
	State    v1alpha1.NodeGroupState
	// Reason and Message explain why it adds no node.
	Reason, Message string
	// RetryTime is when an exhausted group is tried again; zero if it is not exhausted.
	RetryTime time.Time
	// ProvisioningTime is how long a node usually takes; 0 if that is unknown.
	ProvisioningTime time.Duration
}

// Growth is the capacity for a template on nodes that the member's node groups are adding or may add. A group
// that could serve it and may add no node now has a bucket without nodes.
type Growth struct {
	Provisioning, Growable []NodeGroupBucket
}

// NodeGroupBucket is a group of equal nodes that a node group is adding or may add. It is a type of
// its own so that the buckets of nodes that exist need no memory for a name.
type NodeGroupBucket struct {
	Bucket
	NodeGroup string
}

// serves reports whether a node that a group adds can hold a session, if the group may add one.
func (g *Growth) serves(group string, s *shape) bool {
	return g != nil && slices.ContainsFunc(g.Growable, func(b NodeGroupBucket) bool { return b.NodeGroup == group && s.fitsOn(b.Free) > 0 })
}

// growth is the result of a report for a request class on nodes that do not exist yet.
type growth struct {
	// slots of each kind; none are free.
	slots [kinds]int64
	// groups that have any, the fastest first, then by name.
	groups []groupGrowth
}

// groupGrowth is the part of one node group.
type groupGrowth struct {
	name string
	// usual is how long a node of the group usually takes.
	usual time.Duration
	// nodes with a slot, and their slots, of each kind.
	nodes, slots [kinds]int64
}

// total returns the slots of all kinds.
func (g *growth) total() int64 {
	if g == nil {
		return 0
	}
	return g.slots[Provisioning] + g.slots[Growable]
}

// within returns the slots, by kind, of the groups whose nodes usually take at most so long.
func (g *growth) within(limit time.Duration) (slots [kinds]int64) {
	for i := range g.groups {
		if g.groups[i].usual > limit {
			break
		}
		slots[Provisioning] += g.groups[i].slots[Provisioning]
		slots[Growable] += g.groups[i].slots[Growable]
	}
	return slots
}

// fastest returns the fastest group with slots of a kind; nil if there is none.
func (g *growth) fastest(kind Kind) *groupGrowth {
	for i := range g.groups {
		if g.groups[i].slots[kind] > 0 {
			return &g.groups[i]
		}
	}
	return nil
}

// growthFor evaluates the nodes that do not exist yet; nil if none of them has a slot.
func growthFor(report *Capacity, of *Growth, s *shape) *growth {
	if of == nil {
		return nil
	}
	g := &growth{}
	g.add(report, of.Provisioning, Provisioning, s)
	g.add(report, of.Growable, Growable, s)
	if len(g.groups) == 0 {
		return nil
	}
	slices.SortFunc(g.groups, func(a, b groupGrowth) int {
		return cmp.Or(cmp.Compare(a.usual, b.usual), strings.Compare(a.name, b.name))
	})
	return g
}

func (g *growth) add(report *Capacity, buckets []NodeGroupBucket, kind Kind, s *shape) {
	for i := range buckets {
		b := &buckets[i]
		nodes, each := int64(max(b.Nodes, 0)), s.fitsOn(b.Free)
		if nodes == 0 || each == 0 {
			continue
		}
		at := slices.IndexFunc(g.groups, func(other groupGrowth) bool { return other.name == b.NodeGroup })
		if at < 0 {
			at = len(g.groups)
			g.groups = append(g.groups, groupGrowth{name: b.NodeGroup, usual: report.usualTime(b.NodeGroup)})
		}
		g.groups[at].nodes[kind] += nodes
		g.groups[at].slots[kind] += nodes * each
		g.slots[kind] += nodes * each
	}
}

// usualTime returns how long a node of a group usually takes.
func (c *Capacity) usualTime(group string) time.Duration {
	for i := range c.NodeGroups {
		if g := &c.NodeGroups[i]; g.Name == group && g.ProvisioningTime > 0 {
			return g.ProvisioningTime
		}
	}
	return defaultProvisioningTime
}

// defaultProvisioningTime is that of a group which has reported none.
const defaultProvisioningTime = 2 * time.Minute
