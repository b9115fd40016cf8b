package capacity

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Requirements is what a template asks of the member.
type Requirements struct {
	Name, Revision string
	// Resources of a session by default.
	Resources Resources
	// NodeSelector and Tolerations of its Pods.
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// RuntimeClass that must exist; empty: none is asked for.
	RuntimeClass string
	// IngressClass that must exist; empty: a default one must.
	IngressClass string
	// Home: a volume is asked for, of StorageClass; empty: a default one.
	Home         bool
	StorageClass string
	// Image of the desktop.
	Image string
	// PriorityClass of its Pods; empty: none is asked for.
	PriorityClass string
	// NetworkMode and EgressCIDRs of its network policy.
	NetworkMode v1alpha1.NetworkPolicyMode
	EgressCIDRs []string
	// Problem: the template can't be read, and why.
	Problem string
}

// template is a Requirements made ready to be judged.
type template struct {
	Requirements
	constraints
	// perPod is what one session takes of a node by default, the overhead of its
	// runtime class included.
	perPod   demand
	overhead Resources
	// place among the model's templates.
	place int
	// image is the hash of its name.
	image uint64
	// notAllowed is why the member's administrator does not allow it; empty: it is
	// allowed.
	notAllowed string
}

// wishes are what keeps a Pod off nodes before the member's classes are looked
// up.
type wishes struct {
	selector    map[string]string
	tolerations []corev1.Toleration
	// runtimeClass; empty: none.
	runtimeClass string
	// home: a volume of storageClass; empty: of the default class.
	home         bool
	storageClass string
}

// constraintsOf adds what the classes ask that the member has now.
func (m *Model) constraintsOf(w wishes) constraints {
	c := constraints{selector: w.selector, tolerations: w.tolerations}
	if runtime, ok := m.runtimeClasses[w.runtimeClass]; ok {
		c.selector = make(map[string]string, len(w.selector)+len(runtime.NodeSelector))
		maps.Copy(c.selector, w.selector)
		maps.Copy(c.selector, runtime.NodeSelector)
		c.tolerations = slices.Concat(w.tolerations, runtime.Tolerations)
	}
	if w.home {
		c.topologies = m.storageClasses.Topologies[w.storageClass]
	}
	return c
}

func (m *Model) newTemplate(r Requirements) *template {
	overhead := m.runtimeClasses[r.RuntimeClass].Overhead
	return &template{
		Requirements: r, overhead: overhead, perPod: r.Resources.ofPod().plus(overhead).demand(), image: hashImage(r.Image),
		constraints: m.constraintsOf(wishes{r.NodeSelector, r.Tolerations, r.RuntimeClass, r.Home, r.StorageClass}),
		notAllowed:  restriction.Message(m.restrictions.Template(r.restricted())),
	}
}

// restricted is what the member's administrator may restrict of a template.
func (r *Requirements) restricted() restriction.Desktop {
	return restriction.Desktop{
		Image: r.Image, RuntimeClass: r.RuntimeClass, PriorityClass: r.PriorityClass,
		Tolerations: r.Tolerations, NetworkMode: r.NetworkMode, EgressCIDRs: r.EgressCIDRs,
	}
}

func (t *template) compare(o *template) int {
	return cmp.Or(cmp.Compare(t.Name, o.Name), cmp.Compare(t.Revision, o.Revision))
}

// verdict is whether a template may use a node, once that was asked.
type verdict int8

const (
	unasked verdict = iota
	allowed
	forbidden
)

// mayUse is whether the template, one of so many, may use the node now.
func (t *template) mayUse(n *node, templates int) bool {
	if n.allowed == nil {
		n.allowed = make([]verdict, templates)
	}
	if n.allowed[t.place] == unasked {
		n.allowed[t.place] = forbidden
		if t.allow(&n.Node) {
			n.allowed[t.place] = allowed
		}
	}
	return n.allowed[t.place] == allowed
}
