package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// template is a template of the hub, prepared for reports.
type template struct {
	*fleetv1.TemplateRequirements
	constraints
	// requested is what one session uses of a node by default, the overhead of its runtime
	// class included, and perPod the same as a demand.
	requested Resources
	perPod    demand
	overhead  Resources
	// problem is why its resources can't be read, if so.
	problem string
	// class of its sessions with the default resources.
	class nodegroup.Class
	// index among the model's templates.
	index int
	// image is the hash of its name.
	image uint64
	// notAllowed is why the member's administrator does not permit it, if so.
	notAllowed string
}

// PodSpec is the part of a Pod's spec that decides which nodes it may use.
type PodSpec struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	RuntimeClass string
	// Home is set if it has a volume, of StorageClass or the default class.
	Home         bool
	StorageClass string
}

// constraintsOf adds the requirements of the member's classes.
func (m *Model) constraintsOf(s PodSpec) constraints {
	c := constraints{selector: s.NodeSelector, tolerations: s.Tolerations}
	if runtime, ok := m.runtimeClasses[s.RuntimeClass]; ok {
		c.selector = labels.Merge(s.NodeSelector, runtime.NodeSelector)
		c.tolerations = slices.Concat(s.Tolerations, runtime.Tolerations)
	}
	if s.Home {
		c.topologies = m.storageClasses.Topologies[s.StorageClass]
	}
	return c
}

func newTemplate(m *Model, r *fleetv1.TemplateRequirements) *template {
	tolerations := convert.TolerationsFromWire(r.GetTolerations())
	t := &template{
		TemplateRequirements: r, overhead: m.runtimeClasses[r.GetRuntimeClassName()].Overhead, image: hashImage(r.GetImage()),
		constraints: m.constraintsOf(PodSpec{
			NodeSelector: r.GetNodeSelector(), Tolerations: tolerations, RuntimeClass: r.GetRuntimeClassName(),
			Home: r.GetHome(), StorageClass: r.GetStorageClassName(),
		}),
		notAllowed: restriction.Message(m.restrictions.Template(&v1alpha1.Desktop{
			Image: r.GetImage(), RuntimeClassName: r.GetRuntimeClassName(), PriorityClassName: r.GetPriorityClassName(),
			Tolerations: tolerations, NetworkPolicy: v1alpha1.TemplateNetworkPolicy{
				Mode: v1alpha1.NetworkPolicyMode(r.GetNetworkPolicy().GetMode()), EgressCIDRs: r.GetNetworkPolicy().GetEgressCidrs(),
			},
		})),
	}
	resources, err := resourcesFromWire(r.GetResources())
	if err != nil {
		t.problem = err.Error()
	}
	t.class = nodegroup.Class{Template: r.GetName(), Revision: r.GetRevision(), Requests: resources.key()}
	t.requested = resources.ofPod().plus(t.overhead)
	t.perPod = t.requested.demand()
	return t
}

// permission is a cached answer whether a template may use a node.
type permission int8

const (
	unknown permission = iota
	allowed
	forbidden
)

// mayUse reports whether the template may use the node now.
func (t *template) mayUse(n *node, templates int) bool {
	if n.allowed == nil {
		n.allowed = make([]permission, templates)
	}
	if n.allowed[t.index] == unknown {
		n.allowed[t.index] = forbidden
		if t.allow(&n.Node) {
			n.allowed[t.index] = allowed
		}
	}
	return n.allowed[t.index] == allowed
}
