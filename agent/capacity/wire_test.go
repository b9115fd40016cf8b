package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestRequirementsAreReadFromTheWire(t *testing.T) {
	set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{
		{Name: "desk", Revision: "r1", Resources: map[string]string{"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "1"},
			NodeSelector: map[string]string{"a": "b"}, Tolerations: []*fleetv1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoSchedule"}},
			RuntimeClassName: "gvisor", IngressClassName: "nginx", Home: true, StorageClassName: "fast", Image: "kiosk:1",
			PriorityClassName: "low", NetworkPolicy: &fleetv1.NetworkPolicy{Mode: "Isolated", EgressCidrs: []string{"10.0.0.0/8"}}},
		{Name: "bad", Resources: map[string]string{"cpu": "lots"}},
	}}
	got := RequirementsOf(set)
	want := []Requirements{
		{Name: "desk", Revision: "r1", Resources: Resources{"cpu": 1500, "memory": 2 * gi, gpu: 1}, PodSpec: PodSpec{
			NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoSchedule"}},
			RuntimeClass: "gvisor", Home: true, StorageClass: "fast"}, IngressClass: "nginx", Image: "kiosk:1",
			PriorityClass: "low", NetworkMode: v1alpha1.NetworkIsolated, EgressCIDRs: []string{"10.0.0.0/8"}},
		{Name: "bad", Problem: `the template requests cpu "lots", which is not a quantity`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
