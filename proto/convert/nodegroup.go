package convert

import (
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// NodeGroupsToWire converts the node groups of a MemberCluster, with the defaults of absent fields. The
// result shares the memory of the groups, which must not be changed afterwards.
func NodeGroupsToWire(groups []v1alpha1.NodeGroup) []*fleetv1.NodeGroup {
	out := make([]*fleetv1.NodeGroup, 0, len(groups))
	for i := range groups {
		out = append(out, nodeGroupToWire(&groups[i]))
	}
	return out
}

func nodeGroupToWire(g *v1alpha1.NodeGroup) *fleetv1.NodeGroup {
	w := &fleetv1.NodeGroup{
		Name:                   g.Name,
		KarpenterNodePool:      g.KarpenterNodePool,
		ClusterAutoscalerGroup: g.ClusterAutoscalerGroup,
		MaxNodes:               g.MaxNodes,
		Labels:                 g.Node.Labels,
		ProvisioningTime:       durationToWire(g.ProvisioningTime),
	}
	if w.ProvisioningTime == nil {
		w.ProvisioningTime = durationpb.New(v1alpha1.DefaultProvisioningTime)
	}
	for _, t := range g.Node.Taints {
		w.Taints = append(w.Taints, &fleetv1.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	if len(g.Node.Allocatable) > 0 {
		w.Allocatable = make(map[string]string, len(g.Node.Allocatable))
	}
	for name, quantity := range g.Node.Allocatable {
		w.Allocatable[string(name)] = string(quantity)
	}
	return w
}
