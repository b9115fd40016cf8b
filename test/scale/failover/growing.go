package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// The fleet of --growing: the second member has freeInTarget slots and a node group for the rest, the
// third has freeElsewhere slots and no node group.
const (
	freeInTarget  = 20
	freeElsewhere = 60
	group         = "desktops"
	// perNode is how many sessions of 100m fit on a node of 3.9 cores.
	perNode = 39
	// nodeDelay is the time from the launch of an instance until its node exists.
	nodeDelay = 10 * time.Second
)

// rateWindow is the time over which placements in one target are counted. rateSlack is added for the
// tokens of one second that a bucket holds, for times in whole seconds, and for decisions that a busy
// hub writes late.
const (
	rateWindow = 10 * time.Second
	rateSlack  = 3 * time.Second
)

// growth is what is observed of a target that adds nodes.
type growth struct {
	*loss
	target, elsewhere *harness.Member
	maxNodes          int

	mu sync.Mutex // guards the fields below
	// claims are the NodeClaims of the target that exist, mostClaims the most at once.
	claims     map[string]bool
	mostClaims int
}

// growingMembers returns the members of a fleet for --growing; the first has the usual nodes.
func growingMembers(nodes int) []harness.MemberSpec {
	members := harness.DefaultMembers(3, nodes)
	for i, slots := range map[int]int64{1: freeInTarget, 2: freeElsewhere} {
		allocatable := kwok.DefaultAllocatable()
		allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(slots*sessionMillicores, resource.DecimalSI)
		members[i].Nodes = []kwok.NodeGroup{{Count: 1, Region: members[i].Region, Zone: members[i].Zone, Allocatable: allocatable}}
	}
	members[1].Karpenter = &karpenter.Options{
		InstanceTypes: []karpenter.InstanceType{{Name: "small-4", Price: 1, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("110"),
		}}},
		NodePools: []karpenter.NodePool{{Name: group, InstanceTypes: []string{"small-4"}, RegistrationDelay: nodeDelay}},
	}
	return members
}

// newGrowth returns the growth of a loss. As many nodes are permitted as the sessions need that fit on no
// free slot.
func newGrowth(l *loss) *growth {
	needed := max(0, l.sessions-freeInTarget-freeElsewhere)
	return &growth{
		loss: l, target: l.fleet.Members[1], elsewhere: l.fleet.Members[2],
		maxNodes: (needed + perNode - 1) / perNode, claims: map[string]bool{},
	}
}

// declare declares the node group of the target, and waits until the members report their capacity.
func (g *growth) declare(ctx context.Context) error {
	m := &v1alpha1.MemberCluster{}
	if err := g.hub.Get(ctx, client.ObjectKey{Name: g.target.Name}, m); err != nil {
		return fmt.Errorf("reading %s: %w", g.target.Name, err)
	}
	before := client.MergeFrom(m.DeepCopy())
	m.Spec.NodeGroups = []v1alpha1.NodeGroup{{
		Name: group, KarpenterNodePool: group, MaxNodes: ptr.To(int32(g.maxNodes)), ProvisioningTime: "15s",
		Node: v1alpha1.NodeShape{Allocatable: map[corev1.ResourceName]v1alpha1.NodeQuantity{
			corev1.ResourceCPU: "3900m", corev1.ResourceMemory: "15Gi", corev1.ResourceEphemeralStorage: "500Gi", corev1.ResourcePods: "110",
		}},
	}}
	if err := g.hub.Patch(ctx, m, before); err != nil {
		return fmt.Errorf("declaring the node group of %s: %w", g.target.Name, err)
	}
	want := map[string]string{
		g.target.Name:    fmt.Sprintf("%d slots and %d growable", freeInTarget, g.maxNodes*perNode),
		g.elsewhere.Name: fmt.Sprintf("%d slots and 0 growable", freeElsewhere),
	}
	return g.until(ctx, stepTimeout, "the targets report their capacity", func(ctx context.Context) (string, error) {
		for name, capacity := range want {
			got, err := g.capacityOf(ctx, name)
			if err != nil || got != capacity {
				return fmt.Sprintf("%s has %s, want %s", name, got, capacity), err
			}
		}
		return "", nil
	})
}

// capacityOf returns the capacity that a member reports for the template.
func (g *growth) capacityOf(ctx context.Context, member string) (string, error) {
	m := &v1alpha1.MemberCluster{}
	if err := g.hub.Get(ctx, client.ObjectKey{Name: member}, m); err != nil {
		return "", fmt.Errorf("reading %s: %w", member, err)
	}
	for i := range m.Status.Templates {
		if t := &m.Status.Templates[i]; t.Name == template {
			return fmt.Sprintf("%d slots and %d growable", t.Slots, t.Growable), nil
		}
	}
	return "none", nil
}

// watch watches the NodeClaims of the target too.
func (g *growth) watch(ctx context.Context) error {
	members, err := client.NewWithWatch(g.target.ControlPlane.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return fmt.Errorf("making a client of %s: %w", g.target.Name, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		kind := &metav1.PartialObjectMetadataList{}
		kind.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"})
		done <- each(ctx, members, kind, g.nodeClaim, func() bool { return false })
	}()
	err = g.loss.watch(ctx)
	stop()
	if watching := <-done; !errors.Is(watching, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("watching the NodeClaims of %s: %w", g.target.Name, watching))
	}
	return err
}

// nodeClaim records a NodeClaim. None is deleted, since empty nodes are kept.
func (g *growth) nodeClaim(o any, _ time.Time) {
	if claim, is := o.(*metav1.PartialObjectMetadata); is {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.claims[claim.Name] = true
		g.mostClaims = max(g.mostClaims, len(g.claims))
	}
}

// check compares what was observed with what the policy and the limits permit, and prints it.
func (g *growth) check(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ways := slices.SortedFunc(maps.Values(g.seen), func(a, b *way) int { return a.decided.Compare(b.decided) })
	free, freeBefore, onNewNodes := 0, 0, 0
	placed := map[string][]time.Time{}
	for _, w := range ways {
		placed[w.target] = append(placed[w.target], w.placed)
		switch {
		case w.target == g.elsewhere.Name:
			free++
		case w.onNewNode && onNewNodes == 0:
			freeBefore = free
		}
		if w.onNewNode {
			onNewNodes++
		}
	}
	fmt.Printf("\n%d sessions were placed on free slots of %s, %d of them before any was placed on a node that %s had to add; %d were\n",
		free, g.elsewhere.Name, freeBefore, g.target.Name, onNewNodes)
	fmt.Printf("%s has added %d nodes of %d that it may add; its cloud takes %s for each\n", g.target.Name, g.mostClaims, g.maxNodes, nodeDelay)
	var missed []error
	miss := func(format string, args ...any) { missed = append(missed, fmt.Errorf(format, args...)) }
	for _, target := range slices.Sorted(maps.Keys(placed)) {
		most, permitted := mostWithin(placed[target], rateWindow), targetRate*int((rateWindow+rateSlack).Seconds())
		fmt.Printf("%s: %d sessions, at most %d in any %s\n", target, len(placed[target]), most, rateWindow)
		if most > permitted {
			miss("%d sessions were placed in %s within %s, more than %d", most, target, rateWindow, permitted)
		}
	}
	// The statuses of several decisions are written at the same time.
	if free != freeElsewhere || freeBefore < freeElsewhere-targetRate {
		miss("%d of %d free slots of %s were used, %d before any new node", free, freeElsewhere, g.elsewhere.Name, freeBefore)
	}
	if onNewNodes == 0 || g.mostClaims == 0 {
		miss("no session was placed on a new node: nothing was measured")
	}
	if g.mostClaims > g.maxNodes {
		miss("%s had %d NodeClaims, more than maxNodes %d", g.target.Name, g.mostClaims, g.maxNodes)
	}
	return errors.Join(missed...)
}

// mostWithin returns the most of the times that are within a window.
func mostWithin(times []time.Time, window time.Duration) (most int) {
	times = slices.SortedFunc(slices.Values(times), time.Time.Compare)
	first := 0
	for i := range times {
		for times[i].Sub(times[first]) > window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// onNewNode reports whether a session was placed on a node that must be added.
func onNewNode(s *v1alpha1.VDISession) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled)
	return c != nil && c.Reason == v1alpha1.ReasonPlacedOnNewNode
}
