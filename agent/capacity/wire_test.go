package capacity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestResourcesAreReadFromTheWire(t *testing.T) {
	got, err := resourcesFromWire(map[string]string{"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "1"})
	if want := (Resources{"cpu": 1500, "memory": 2 * gi, gpu: 1}); err != nil || !cmp.Equal(want, got) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestNodeGroupsAreReadFromTheWire(t *testing.T) {
	got, err := specsOf(&fleetv1.TemplateSet{NodeGroups: []*fleetv1.NodeGroup{
		{Name: "a", KarpenterNodePool: "general", MaxNodes: ptr.To(int32(0)), ProvisioningTime: durationpb.New(time.Minute)},
		{Name: "malformed", Allocatable: map[string]string{"cpu": "lots"}},
		{Name: "b", ClusterAutoscalerGroup: "asg", Labels: map[string]string{"pool": "b"}, Taints: []*fleetv1.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}},
			Allocatable: map[string]string{"cpu": "3500m", "pods": "110"}},
	}})
	want := []nodegroup.Spec{
		{Name: "a", KarpenterNodePool: "general", MaxNodes: ptr.To(int32(0)), ProvisioningTime: time.Minute},
		{Name: "b", ClusterAutoscalerGroup: "asg", Labels: map[string]string{"pool": "b"}, Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute}},
			Allocatable: nodegroup.Amounts{"cpu": 3500, "pods": 110}, ProvisioningTime: 2 * time.Minute},
	}
	if diff := cmp.Diff(want, got); diff != "" || err == nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
