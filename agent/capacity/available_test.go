package capacity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestAvailability(t *testing.T) {
	plain := nodes(machine("a", 4000, 32))
	tainted := nodes(with(machine("a", 4000, 32), func(n *Node) {
		n.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	}))
	for _, tc := range []struct {
		name            string
		requires        func(*requirements)
		changes         []func(*Model)
		reason, message string
	}{
		{name: "plain", changes: []func(*Model){plain}},
		{name: "full is available", changes: []func(*Model){plain, func(m *Model) { m.SetPod(pod("p", "a", resources(4000, 32))) }}},
		{name: "cordoned is available", changes: []func(*Model){nodes(with(machine("a", 4000, 32), func(n *Node) {
			n.Open = false
			n.Taints = []corev1.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}}
		}))}},
		{name: "a named storage class", requires: func(r *requirements) { r.Home = true; r.StorageClassName = "fast" },
			changes: []func(*Model){plain, func(m *Model) { m.SetStorageClasses(Classes{Names: map[string]bool{"fast": true}}) }}},
		{name: "no such storage class", requires: func(r *requirements) { r.Home = true; r.StorageClassName = "fast" },
			changes: []func(*Model){plain, func(m *Model) { m.SetStorageClasses(Classes{Default: true}) }},
			reason:  v1alpha1.UnavailableStorageClass, message: `the member has no storage class "fast"`},
		{name: "a storage class without a home does not matter", requires: func(r *requirements) { r.StorageClassName = "fast" }, changes: []func(*Model){plain}},
		{name: "no default storage class", requires: func(r *requirements) { r.Home = true },
			changes: []func(*Model){plain, func(m *Model) { m.SetStorageClasses(Classes{Names: map[string]bool{"fast": true}}) }},
			reason:  v1alpha1.UnavailableStorageClass, message: "the member has no default storage class, and the template names none: set one of them"},
		{name: "no such ingress class", requires: func(r *requirements) { r.IngressClassName = "nginx" }, changes: []func(*Model){plain},
			reason: v1alpha1.UnavailableIngressClass, message: `the member has no ingress class "nginx"`},
		{name: "no default ingress class", changes: []func(*Model){plain, func(m *Model) { m.SetIngressClasses(Classes{}) }},
			reason: v1alpha1.UnavailableIngressClass, message: "the member has no default ingress class, and the template names none: set one of them"},
		{name: "no such runtime class", requires: func(r *requirements) { r.RuntimeClassName = "gvisor" }, changes: []func(*Model){plain},
			reason: v1alpha1.UnavailableRuntimeClass, message: `the member has no runtime class "gvisor"`},
		{name: "no such priority class", requires: func(r *requirements) { r.PriorityClassName = "desktops" }, changes: []func(*Model){plain},
			reason: v1alpha1.UnavailablePriorityClass, message: `the member has no priority class "desktops"`},
		{name: "a priority class", requires: func(r *requirements) { r.PriorityClassName = "desktops" },
			changes: []func(*Model){plain, func(m *Model) { m.SetPriorityClasses(sets.New("desktops")) }}},
		{name: "no node at all", reason: v1alpha1.UnavailableNode, message: "the member has no node"},
		{name: "no matching node", requires: func(r *requirements) { r.NodeSelector = map[string]string{"gpu": "yes", "disk": "ssd"} },
			changes: []func(*Model){plain}, reason: v1alpha1.UnavailableNode, message: "no node has the labels disk=ssd, gpu=yes"},
		{name: "only tainted nodes", changes: []func(*Model){tainted}, reason: v1alpha1.UnavailableNode,
			message: "every matching node has a taint that the template does not tolerate, such as dedicated=db:NoSchedule"},
		{name: "no such device", requires: func(r *requirements) { r.Resources[string(gpu)] = "1" }, changes: []func(*Model){plain},
			reason: v1alpha1.UnavailableResource, message: "no node has enough nvidia.com/gpu (requested 1, the largest node has 0)"},
		{name: "no node large enough", requires: func(r *requirements) { r.Resources = quantities(resources(8000, 64)) }, changes: []func(*Model){plain},
			reason:  v1alpha1.UnavailableResource,
			message: "no node has enough cpu (requested 8, the largest node has 4) and memory (requested 64Gi, the largest node has 32Gi)"},
		{name: "large enough in different nodes", requires: func(r *requirements) { r.Resources = quantities(resources(8000, 64)) },
			changes: []func(*Model){nodes(machine("a", 8000, 2), machine("b", 1000, 64))},
			reason:  v1alpha1.UnavailableResource, message: "no single node is large enough for all requests"},
		{name: "not allowed", requires: func(r *requirements) {
			r.RuntimeClassName, r.NetworkPolicy = "kata", &fleetv1.NetworkPolicy{Mode: "Open"}
		},
			changes: []func(*Model){plain, func(m *Model) {
				m.restrictions = restriction.Settings{}
				m.SetRuntimeClasses(map[string]RuntimeClass{"kata": {}})
			}},
			reason:  v1alpha1.UnavailableNotAllowed,
			message: "network mode Open is not allowed in this member: use Isolated, or have the member's administrator allow it (--allow-open-network)"},
		{name: "not allowed by default", requires: func(r *requirements) { r.Tolerations = []*fleetv1.Toleration{{Operator: "Exists"}} },
			changes: []func(*Model){plain}, reason: v1alpha1.UnavailableNotAllowed,
			message: "a toleration of every taint is not allowed in this member, since it includes the control plane's: set the key of the taint, or have the member's administrator allow it (--allow-control-plane)"},
		{name: "unreadable", requires: func(r *requirements) { r.Resources["cpu"] = "lots" }, changes: []func(*Model){plain},
			reason: v1alpha1.UnavailableResource, message: `the template requests cpu "lots", which is not a quantity`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := desk()
			if tc.requires != nil {
				tc.requires(r)
			}
			m := scene(tc.changes...)
			m.SetTemplates([]*requirements{r})
			got := capacityOf(t, m)
			if got.Reason != tc.reason || got.Message != tc.message || got.Available != (tc.reason == "") {
				t.Errorf("got %v %s: %s\nwant %s: %s", got.Available, got.Reason, got.Message, tc.reason, tc.message)
			}
			if !got.Available && len(got.Buckets) != 0 {
				t.Errorf("unavailable, and yet with capacity: %v", got.Buckets)
			}
		})
	}
}
