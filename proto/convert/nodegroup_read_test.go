package convert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// soundGroup returns a node group with every field but a second source.
func soundGroup() *fleetv1.NodeGroup {
	return &fleetv1.NodeGroup{
		Name: "desktops", KarpenterNodePool: "general", MaxNodes: ptr.To(int32(0)), ProvisioningTime: durationpb.New(90 * time.Second),
		Labels: map[string]string{"pool": "desktops"}, Taints: []*fleetv1.Taint{{Key: "desktops", Effect: "NoSchedule"}},
		Allocatable: map[string]string{"cpu": "15800m", "pods": "110"},
	}
}

func TestMalformedNodeGroupsAreSkipped(t *testing.T) {
	scaled := &fleetv1.NodeGroup{Name: "scaled", ClusterAutoscalerGroup: "https://compute.example.com/asg-1"}
	if got, err := CheckedNodeGroups([]*fleetv1.NodeGroup{soundGroup(), scaled}); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		change func(*fleetv1.NodeGroup)
		want   string
	}{
		"no name":           {func(w *fleetv1.NodeGroup) { w.Name = "" }, "name: missing"},
		"a bad name":        {func(w *fleetv1.NodeGroup) { w.Name = "a b" }, "name:"},
		"the same name":     {func(w *fleetv1.NodeGroup) { w.Name = "scaled" }, "name: it is that of another"},
		"a long name":       {func(w *fleetv1.NodeGroup) { w.KarpenterNodePool = strings.Repeat("x", 300) }, "karpenter_node_pool:"},
		"two sources":       {func(w *fleetv1.NodeGroup) { w.ClusterAutoscalerGroup = "asg" }, "cluster_autoscaler_group too"},
		"not visible":       {func(w *fleetv1.NodeGroup) { w.KarpenterNodePool, w.ClusterAutoscalerGroup = "", "a\x00" }, "cluster_autoscaler_group:"},
		"negative":          {func(w *fleetv1.NodeGroup) { w.MaxNodes = ptr.To(int32(-1)) }, "max_nodes: -1 is negative"},
		"too many nodes":    {func(w *fleetv1.NodeGroup) { w.MaxNodes = ptr.To(int32(10_001)) }, "max_nodes: 10001, more than"},
		"no quantity":       {func(w *fleetv1.NodeGroup) { w.Allocatable["cpu"] = "lots" }, "allocatable[cpu]"},
		"a negative amount": {func(w *fleetv1.NodeGroup) { w.Allocatable["cpu"] = "-1" }, "allocatable[cpu]"},
		"no pods":           {func(w *fleetv1.NodeGroup) { delete(w.Allocatable, "pods") }, "allocatable: it has no pods"},
		"a long label":      {func(w *fleetv1.NodeGroup) { w.Labels["a"] = strings.Repeat("x", 2000) }, "labels:"},
		"many taints":       {func(w *fleetv1.NodeGroup) { w.Taints = make([]*fleetv1.Taint, 17) }, "taints:"},
		"a negative time":   {func(w *fleetv1.NodeGroup) { w.ProvisioningTime.Seconds = -90 }, "provisioning_time:"},
	} {
		w := soundGroup()
		tc.change(w)
		got, err := CheckedNodeGroups([]*fleetv1.NodeGroup{scaled, w})
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(got) != 1 || got[0] != scaled {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	var many []*fleetv1.NodeGroup
	for i := range v1alpha1.MaxNodeGroups + 1 {
		many = append(many, &fleetv1.NodeGroup{Name: fmt.Sprint("g", i)})
	}
	if got, err := CheckedNodeGroups(many); err == nil || len(got) != v1alpha1.MaxNodeGroups {
		t.Errorf("%d groups of %d: %v", len(got), len(many), err)
	}
}

// Whether a node may be added decides about one order, not what is stored.
func TestWhetherANodeMayBeAddedIsNotStored(t *testing.T) {
	a := &v1alpha1.SessionAssignment{}
	a.Namespace, a.Name, a.Spec.Session.UID, a.Spec.Epoch, a.Spec.Desktop.Image = "demo", "a", "u", 1, "i"
	before := AssignmentToWire(a)
	a.MayAddNode = true
	after := AssignmentToWire(a)
	if !after.MayAddNode || before.MayAddNode || before.SpecHash != after.SpecHash {
		t.Errorf("before %v, after %v", before, after)
	}
	got, err := AssignmentFromWire(after)
	if err != nil || !got.MayAddNode {
		t.Errorf("%v, %v", got, err)
	}
}
