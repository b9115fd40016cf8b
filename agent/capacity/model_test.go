package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestSlots(t *testing.T) {
	do := func(changes ...func(*Model)) []func(*Model) { return changes }
	noSchedule := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	for _, tc := range []struct {
		name    string
		changes []func(*Model)
		slots   int32
	}{
		{"an empty node", do(nodes(machine("a", 4000, 32))), 4},
		{"the scarcest resource decides", do(nodes(machine("a", 8000, 7))), 3},
		{"what is left on different nodes is not added up", do(nodes(machine("a", 900, 32), machine("b", 900, 32), machine("c", 1900, 32))), 1},
		{"other Pods count", do(nodes(machine("a", 4000, 32)), func(m *Model) { m.SetPod(pod("p", "a", resources(1500, 1))) }), 2},
		{"a Pod that is done holds nothing", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			p := pod("p", "a", resources(1500, 1))
			m.SetPod(p)
			p.Done = true
			m.SetPod(p)
		}), 4},
		{"a Pod that is gone holds nothing", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetPod(pod("p", "a", resources(1500, 1)))
			m.DeletePod("p")
		}), 4},
		{"a Pod seen before its node", do(func(m *Model) { m.SetPod(pod("p", "a", resources(1500, 1))) }, nodes(machine("a", 4000, 32))), 2},
		{"Pods take Pods", do(nodes(with(machine("a", 8000, 32), func(n *Node) { n.Allocatable[corev1.ResourcePods] = 3 })),
			func(m *Model) { m.SetPod(pod("p", "a", nil)) }), 2},
		{"more used than there is", do(nodes(machine("a", 1000, 2)), func(m *Model) { m.SetPod(pod("p", "a", resources(9000, 9))) }), 0},
		{"an unbound Pod takes the node with the most free capacity", do(nodes(machine("a", 1500, 32), machine("b", 4000, 32)),
			func(m *Model) { m.SetPod(pod("p", "", resources(1000, 1))) }), 4},
		{"an unbound Pod that fits nowhere takes nothing", do(nodes(machine("a", 4000, 32)),
			func(m *Model) { m.SetPod(pod("p", "", resources(64000, 1))) }), 4},
		{"an unbound Pod lands where it may", do(nodes(machine("a", 2000, 32), machine("b", 8000, 32)), func(m *Model) {
			m.SetPod(with(pod("p", "", resources(2000, 1)), func(p *Pod) { p.NodeSelector = map[string]string{"name": "a"} }))
		}), 8},

		{"an assignment counts before its Pod", do(nodes(machine("a", 4000, 32)),
			func(m *Model) { m.SetAssignment(assigned("s", resources(1000, 2))) }), 3},
		{"an assignment and its Pod count once", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetAssignment(assigned("s", resources(1000, 2)))
			m.SetPod(Pod{UID: "p", Session: "s", Node: "a", Resources: resources(1000, 2)})
		}), 3},
		{"in whichever order they come", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetPod(Pod{UID: "p", Session: "s", Resources: resources(1000, 2)})
			m.SetAssignment(assigned("s", resources(1000, 2)))
			m.SetPod(Pod{UID: "p", Session: "s", Node: "a", Resources: resources(1000, 2)})
		}), 3},
		{"an assignment whose Pod failed needs another", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetAssignment(assigned("s", resources(1000, 2)))
			m.SetPod(Pod{UID: "p", Session: "s", Node: "a", Resources: resources(1000, 2), Done: true})
		}), 3},
		{"an assignment whose Pod is gone needs another", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetAssignment(assigned("s", resources(1000, 2)))
			m.SetPod(Pod{UID: "p", Session: "s", Node: "a", Resources: resources(1000, 2)})
			m.DeletePod("p")
		}), 3},
		{"a suspended one holds nothing", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetAssignment(assigned("s", resources(1000, 2)))
			m.SetAssignment(with(assigned("s", resources(1000, 2)), func(a *Assignment) { a.Idle = true }))
		}), 4},
		{"but its Pod does until it is gone", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetAssignment(with(assigned("s", resources(1000, 2)), func(a *Assignment) { a.Idle = true }))
			m.SetPod(Pod{UID: "p", Session: "s", Node: "a", Resources: resources(1000, 2)})
		}), 3},
		{"a deleted assignment holds nothing, its Pod does", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetAssignment(assigned("s", resources(1000, 2)))
			m.SetPod(Pod{UID: "p", Session: "s", Node: "a", Resources: resources(1000, 2)})
			m.DeleteAssignment("a-s")
		}), 3},
		{"two assignments of one session, as when it is recreated", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetAssignment(assigned("s", resources(1000, 2)))
			m.SetAssignment(Assignment{UID: "next", Session: "s", Resources: resources(1000, 2)})
			m.DeleteAssignment("a-s")
		}), 3},

		{"cordoned or not Ready", do(nodes(machine("a", 4000, 32), with(machine("b", 4000, 32), func(n *Node) { n.Open = false }))), 4},
		{"cordoned after its Pods were set", do(nodes(machine("a", 4000, 32)), func(m *Model) { m.SetPod(pod("p", "a", resources(1000, 1))) },
			nodes(with(machine("a", 4000, 32), func(n *Node) { n.Open = false })), nodes(machine("a", 4000, 32))), 3},
		{"tainted", do(nodes(machine("a", 4000, 32), with(machine("b", 4000, 32), func(n *Node) { n.Taints = []corev1.Taint{noSchedule} }))), 4},
		{"tolerated", do(nodes(with(machine("b", 4000, 32), func(n *Node) { n.Taints = []corev1.Taint{noSchedule} })), func(m *Model) {
			m.SetTemplates([]*requirements{deskWith(func(r *requirements) {
				r.Tolerations = []*fleetv1.Toleration{{Key: "dedicated", Operator: "Exists"}}
			})})
		}), 4},
		{"selected", do(nodes(machine("a", 4000, 32), machine("b", 2000, 32)), func(m *Model) {
			m.SetTemplates([]*requirements{deskWith(func(r *requirements) { r.NodeSelector = map[string]string{"name": "b"} })})
		}), 2},
		{"selected by the runtime class", do(nodes(machine("a", 4000, 32), machine("b", 2000, 32)), func(m *Model) {
			m.SetTemplates([]*requirements{deskWith(func(r *requirements) { r.RuntimeClassName = "gvisor" })})
			m.SetRuntimeClasses(map[string]RuntimeClass{"gvisor": {NodeSelector: map[string]string{"name": "b"}}})
		}), 2},
		{"devices", do(nodes(machine("a", 64000, 320), with(machine("b", 64000, 320), func(n *Node) { n.Allocatable[gpu] = 4 })), func(m *Model) {
			m.SetTemplates([]*requirements{deskWith(func(r *requirements) { r.Resources[string(gpu)] = "1" })})
			m.SetPod(pod("p", "b", Resources{gpu: 1}))
		}), 3},
		{"a node that left and came back", do(nodes(machine("a", 4000, 32)), func(m *Model) {
			m.SetPod(pod("p", "a", resources(1000, 1)))
			m.DeleteNode("a")
		}, nodes(machine("a", 4000, 32))), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := capacityOf(t, scene(tc.changes...))
			if !got.Available || got.Slots != tc.slots {
				t.Errorf("available %v (%s), %d slots, want %d", got.Available, got.Message, got.Slots, tc.slots)
			}
		})
	}
}

func TestReport(t *testing.T) {
	m := scene(nodes(machine("a", 4000, 32), machine("b", 4050, 32), machine("c", 1000, 32),
		with(machine("d", 4000, 32), func(n *Node) { n.Open = false }),
		with(machine("e", 4000, 32), func(n *Node) { n.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}} })))
	m.restrictions.AgentNamespace = "agents"
	m.SetTemplates([]*requirements{{Name: "unread", Resources: map[string]string{"cpu": "lots"}}, desk()})
	m.SetAdmittedNamespaces(map[string]bool{"lab": false, "kube-system": true, "desks": true, "agents": false})
	m.SetAssignment(assigned("s", resources(1000, 2)))
	m.SetPod(Pod{UID: "p", Session: "s", Node: "c", Resources: resources(1000, 2)})
	free := func(cpu, memory, pods int64) Resources {
		r := resources(cpu, memory)
		r[corev1.ResourcePods] = pods
		if cpu == 0 {
			delete(r, corev1.ResourceCPU)
		}
		return r
	}
	want := &fleetv1.CapacityReport{
		Nodes: 3, AdmittedNamespaces: []string{"desks", "lab"}, PodSecurity: &fleetv1.PodSecurity{NotEnforced: []string{"lab"}}, Assignments: 1,
		Templates: []*fleetv1.TemplateCapacity{
			{Name: "desk", Revision: "r1", Available: true, Slots: 8,
				Buckets: []*fleetv1.Bucket{{Nodes: 1, Free: free(0, 30, 109).wire()}, {Nodes: 2, Free: free(4000, 32, 110).wire()}}},
			{Name: "unread", Reason: v1alpha1.UnavailableResource, Message: `the template requests cpu "lots", which is not a quantity`},
		},
	}
	if diff := cmp.Diff(want, m.Report(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestTemplatesThatMayUseTheSameNodesShareTheirBuckets(t *testing.T) {
	m := scene(nodes(machine("a", 4000, 32), machine("b", 8000, 32), with(machine("c", 8000, 64), func(n *Node) { n.Labels = map[string]string{"disk": "ssd"} })))
	large := deskWith(func(r *requirements) { r.Name, r.Resources["cpu"] = "large", "4" })
	ssd := deskWith(func(r *requirements) { r.Name, r.NodeSelector = "ssd", map[string]string{"disk": "ssd"} })
	m.SetTemplates([]*requirements{desk(), large, ssd})
	r := m.Report()
	counts := map[string]int{}
	for _, c := range r.Templates {
		counts[c.Name] = len(c.Buckets)
	}
	if diff := cmp.Diff(map[string]int{"desk": 3, "large": 0, "ssd": 1}, counts); diff != "" {
		t.Errorf("buckets in the report (-want +got):\n%s", diff)
	}
	if got := r.Templates[1]; got.Name != "large" || got.BucketsOf != "desk@r1" || len(convert.BucketsOf(r, got)) != 3 {
		t.Errorf("it refers to %q", got.BucketsOf)
	}
}
