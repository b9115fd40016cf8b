package capacity

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const (
	gi  = int64(1) << 30
	gpu = corev1.ResourceName("nvidia.com/gpu")
)

// resources returns amounts of cpu in milli-units and memory in GiB.
func resources(cpu, memory int64) Resources {
	return Resources{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory * gi}
}

// machine returns an open node.
func machine(name string, cpu, memory int64) Node {
	r := resources(cpu, memory)
	r[corev1.ResourcePods] = 110
	return Node{Name: name, Labels: map[string]string{"name": name}, Allocatable: r, Open: true}
}

func with[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

// requirements are a template of the hub.
type requirements = fleetv1.TemplateRequirements

// desk returns a template that requests 1 cpu and 2 GiB.
func desk() *requirements {
	return &requirements{Name: "desk", Revision: "r1", Resources: quantities(resources(1000, 2))}
}

// deskWith returns desk with a change.
func deskWith(change func(*requirements)) *requirements {
	r := desk()
	change(r)
	return r
}

// quantities returns resources as a template has them.
func quantities(r Resources) map[string]string {
	out := map[string]string{}
	for name, amount := range r {
		out[string(name)] = v1alpha1.AmountText(name, amount)
	}
	return out
}

// scene returns a model of a member with a default ingress class that evaluates desk.
func scene(changes ...func(*Model)) *Model {
	m := NewModel(restriction.Defaults())
	m.SetIngressClasses(Classes{Default: true})
	m.SetTemplates([]*requirements{desk()})
	for _, change := range changes {
		change(m)
	}
	return m
}

func nodes(all ...Node) func(*Model) {
	return func(m *Model) {
		for _, n := range all {
			m.SetNode(n)
		}
	}
}

func pod(uid types.UID, node string, r Resources) Pod { return Pod{UID: uid, Node: node, Resources: r} }

func assigned(uid types.UID, r Resources) Assignment {
	return Assignment{UID: "a-" + uid, Session: uid, Resources: r}
}

// capacityOf returns what a model reports of its only template.
func capacityOf(t *testing.T, m *Model) *fleetv1.TemplateCapacity {
	t.Helper()
	r := m.Report()
	if len(r.Templates) != 1 {
		t.Fatalf("%d templates", len(r.Templates))
	}
	return r.Templates[0]
}

func names(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(prefix, i))
	}
	return out
}

// wire returns resources as a report has them.
func wire(free map[string]int64) Resources {
	out := Resources{}
	for name, amount := range free {
		out[corev1.ResourceName(name)] = amount
	}
	return out
}
