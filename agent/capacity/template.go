package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Requirements is what a template requires of the member.
type Requirements struct {
	Name, Revision string
	// Resources of a session by default.
	Resources Resources
	// PodSpec of its Pods, whose classes must exist.
	PodSpec
	// IngressClass must exist, or a default one if it is empty.
	IngressClass string
	// Image of the desktop.
	Image string
	// PriorityClass of its Pods, if any.
	PriorityClass string
	// NetworkMode and EgressCIDRs of its network policy.
	NetworkMode v1alpha1.NetworkPolicyMode
	EgressCIDRs []string
	// Problem is why the template can't be read, if so.
	Problem string
}

// template is Requirements prepared for reports.
type template struct {
	Requirements
	constraints
	// perPod is what one session uses of a node by default, the overhead of its runtime
	// class included.
	perPod   demand
	overhead Resources
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

func newTemplate(m *Model, r Requirements) *template {
	overhead := m.runtimeClasses[r.RuntimeClass].Overhead
	return &template{
		Requirements: r, overhead: overhead, perPod: r.Resources.ofPod().plus(overhead).demand(), image: hashImage(r.Image),
		constraints: m.constraintsOf(r.PodSpec),
		notAllowed: restriction.Message(m.restrictions.Template(restriction.Desktop{
			Image: r.Image, RuntimeClass: r.RuntimeClass, PriorityClass: r.PriorityClass,
			Tolerations: r.Tolerations, NetworkMode: r.NetworkMode, EgressCIDRs: r.EgressCIDRs,
		})),
	}
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
