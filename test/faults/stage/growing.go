package stage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
)

// nodeGroup is the name of the only NodePool, and of the only node group, of a growing member.
const nodeGroup = "desktops"

// slotsPerNode is how many sessions of growingCPU fit on a node of nodeShape.
const (
	slotsPerNode = 2
	growingCPU   = "7"
)

// registrationDelay is the time from the launch of an instance until its node exists.
const registrationDelay = 3 * time.Second

// nodeShape is that of the nodes that are added.
var nodeShape = v1alpha1.NodeShape{Allocatable: map[corev1.ResourceName]v1alpha1.NodeQuantity{
	corev1.ResourceCPU: "15900m", corev1.ResourceMemory: "60Gi", corev1.ResourceEphemeralStorage: "500Gi", corev1.ResourcePods: "110",
}}

// growingMembers returns members without nodes. Their NodePools have no limit: only the node groups
// limit them.
func growingMembers() []harness.MemberSpec {
	members := harness.DefaultMembers(3, 0)
	for i := range members {
		members[i].Karpenter = &karpenter.Options{NodePools: []karpenter.NodePool{{
			Name: nodeGroup, InstanceTypes: []string{"standard-16"}, RegistrationDelay: registrationDelay,
		}}}
	}
	return members
}

// LimitNodes sets the maximum number of nodes of a growing member, for the checker first: it must not
// be lower than before.
func (s *Stage) LimitNodes(ctx context.Context, member string, nodes int) error {
	s.Watch.With(func(c *checker.Checker, _ time.Time) {
		c.LimitNodes(member, checker.NodeLimit{Nodes: nodes, Slots: slotsPerNode})
	})
	err := Poll(ctx, Allowance, func(ctx context.Context) error {
		m := &v1alpha1.MemberCluster{}
		if err := s.Watch.Hub.Get(ctx, watch.Key("/"+member), m); err != nil {
			return err
		}
		before := client.MergeFrom(m.DeepCopy())
		m.Spec.NodeGroups = []v1alpha1.NodeGroup{{
			Name: nodeGroup, KarpenterNodePool: nodeGroup, MaxNodes: ptr.To(int32(nodes)), Node: nodeShape,
		}}
		return s.Watch.Hub.Patch(ctx, m, before)
	})
	if err != nil {
		return fmt.Errorf("limiting the nodes of %s: %w", member, err)
	}
	return nil
}

// MostNodes returns the most nodes that a growing member had at once.
func (s *Stage) MostNodes(member string) (most int) {
	s.Watch.With(func(c *checker.Checker, _ time.Time) { most = c.MostNodes(member) })
	return most
}
