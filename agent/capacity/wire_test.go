package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestWire(t *testing.T) {
	set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{
		{Name: "desk", Revision: "r1", Resources: map[string]string{"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "1"},
			NodeSelector: map[string]string{"a": "b"}, Tolerations: []*fleetv1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoSchedule"}},
			RuntimeClassName: "gvisor", IngressClassName: "nginx", Home: true, StorageClassName: "fast", Image: "kiosk:1",
			PriorityClassName: "low", NetworkPolicy: &fleetv1.NetworkPolicy{Mode: "Isolated", EgressCidrs: []string{"10.0.0.0/8"}}},
		{Name: "bad", Resources: map[string]string{"cpu": "lots"}},
	}}
	got := RequirementsOf(set)
	want := []Requirements{
		{Name: "desk", Revision: "r1", Resources: Resources{"cpu": 1500, "memory": 2 * gi, gpu: 1}, NodeSelector: map[string]string{"a": "b"},
			Tolerations:  []corev1.Toleration{{Key: "k", Operator: "Exists", Effect: "NoSchedule"}},
			RuntimeClass: "gvisor", IngressClass: "nginx", Home: true, StorageClass: "fast", Image: "kiosk:1",
			PriorityClass: "low", NetworkMode: v1alpha1.NetworkIsolated, EgressCIDRs: []string{"10.0.0.0/8"}},
		{Name: "bad", Problem: `the template asks for cpu "lots", which is no quantity`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r := Report{Nodes: 2, AdmittedNamespaces: []string{"n"}, NotEnforced: []string{"n"}, Assignments: 3, Templates: []TemplateReport{
		{Name: "desk", Revision: "r1", Available: true, Slots: 4, ImageNodes: 1, Buckets: []Bucket{{Nodes: 2, Free: Resources{"cpu": 1500}}}},
		{Name: "bad", Reason: "R", Message: "m"}}}
	wire := &fleetv1.CapacityReport{Sequence: 7, Nodes: 2, AdmittedNamespaces: []string{"n"}, PodSecurity: &fleetv1.PodSecurity{NotEnforced: []string{"n"}}, Assignments: 3, Templates: []*fleetv1.TemplateCapacity{
		{Name: "desk", Revision: "r1", Available: true, Slots: 4, ImageNodes: 1, Buckets: []*fleetv1.Bucket{{Nodes: 2, Free: map[string]int64{"cpu": 1500}}}},
		{Name: "bad", Reason: "R", Message: "m"}}}
	if diff := cmp.Diff(wire, r.Wire(7), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
