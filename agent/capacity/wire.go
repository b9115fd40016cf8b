package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// resourcesFromWire reads the resources of a template.
func resourcesFromWire(quantities map[string]string) (Resources, error) {
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		q, err := resource.ParseQuantity(quantities[name])
		if err != nil {
			return nil, fmt.Errorf("the template requests %s %q, which is not a quantity", name, quantities[name])
		}
		list[corev1.ResourceName(name)] = q
	}
	return ResourcesOf(list), nil
}

// defaultProvisioningTime is that of a node group for which the hub sends none.
const defaultProvisioningTime = 2 * time.Minute

// specsOf returns the node groups of a TemplateSet as a Tracker has them, without malformed ones. The error
// explains these.
func specsOf(set *fleetv1.TemplateSet) ([]nodegroup.Spec, error) {
	sound, err := convert.CheckedNodeGroups(set.GetNodeGroups())
	out := make([]nodegroup.Spec, 0, len(sound))
	for _, g := range sound {
		out = append(out, specOf(g))
	}
	return out, err
}

func specOf(g *fleetv1.NodeGroup) nodegroup.Spec {
	s := nodegroup.Spec{
		Name: g.GetName(), KarpenterNodePool: g.GetKarpenterNodePool(), ClusterAutoscalerGroup: g.GetClusterAutoscalerGroup(),
		MaxNodes: g.MaxNodes, Labels: g.GetLabels(), ProvisioningTime: cmp.Or(g.GetProvisioningTime().AsDuration(), defaultProvisioningTime),
	}
	for _, t := range g.GetTaints() {
		s.Taints = append(s.Taints, corev1.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: corev1.TaintEffect(t.GetEffect())})
	}
	if allocatable, err := convert.ResourcesFromWire(g.GetAllocatable()); err == nil && len(allocatable) > 0 {
		s.Allocatable = nodegroup.Amounts(ResourcesOf(allocatable))
	}
	return s
}

// statusesOf returns the states of node groups as a report has them.
func statusesOf(groups []nodegroup.Group) []*fleetv1.NodeGroupStatus {
	out := make([]*fleetv1.NodeGroupStatus, 0, len(groups))
	for i := range groups {
		g := &groups[i]
		s := &fleetv1.NodeGroupStatus{
			Name: g.Name, Nodes: g.Nodes, Provisioning: int32(min(len(g.Provisioning), math.MaxInt32)), Growable: g.Growable,
			State: g.State, Reason: g.Reason, Message: convert.Sentence(g.Message, convert.MaxMessage),
			ProvisioningTime: durationpb.New(g.Usual), MaxNodes: g.Most,
		}
		if !g.RetryTime.IsZero() {
			s.RetryTime = timestamppb.New(g.RetryTime)
		}
		out = append(out, s)
	}
	return out
}

func (r Resources) wire() map[string]int64 {
	out := make(map[string]int64, len(r))
	for name, amount := range r {
		out[string(name)] = amount
	}
	return out
}
