package convert

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestNodeGroupsToWire(t *testing.T) {
	got := NodeGroupsToWire([]v1alpha1.NodeGroup{
		{
			Name: "desktops", KarpenterNodePool: "pool", MaxNodes: ptr.To[int32](0), ProvisioningTime: "90s",
			Node: v1alpha1.NodeShape{
				Allocatable: map[corev1.ResourceName]v1alpha1.NodeQuantity{"cpu": "15800m", "pods": "110"},
				Labels:      map[string]string{"pool": "desktops"},
				Taints:      []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
			},
		},
		{Name: "others", ClusterAutoscalerGroup: "asg-1"},
		{Name: "malformed", ProvisioningTime: "soon"},
	})
	want := []*fleetv1.NodeGroup{
		{
			Name: "desktops", KarpenterNodePool: "pool", MaxNodes: proto.Int32(0), ProvisioningTime: durationpb.New(90 * time.Second),
			Allocatable: map[string]string{"cpu": "15800m", "pods": "110"}, Labels: map[string]string{"pool": "desktops"},
			Taints: []*fleetv1.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
		},
		{Name: "others", ClusterAutoscalerGroup: "asg-1", ProvisioningTime: durationpb.New(2 * time.Minute)},
		{Name: "malformed", ProvisioningTime: durationpb.New(2 * time.Minute)},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none := NodeGroupsToWire(nil); len(none) != 0 {
		t.Errorf("of no node groups: %v", none)
	}
}
