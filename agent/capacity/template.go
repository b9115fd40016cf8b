package capacity

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
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
	// Problem: the template can't be read, and why.
	Problem string
}

// template is a Requirements made ready to be judged.
type template struct {
	Requirements
	constraints
	// perPod is what one session takes of a node by default.
	perPod demand
	// image is the hash of its name.
	image uint64
}

func newTemplate(r Requirements, runtime RuntimeClass) *template {
	t := &template{Requirements: r, perPod: r.Resources.ofPod().demand(), image: hashImage(r.Image)}
	t.selector = maps.Clone(r.NodeSelector)
	if t.selector == nil {
		t.selector = map[string]string{}
	}
	maps.Copy(t.selector, runtime.NodeSelector)
	t.tolerations = append(append(t.tolerations, r.Tolerations...), runtime.Tolerations...)
	return t
}

func (t *template) compare(o *template) int {
	return cmp.Or(cmp.Compare(t.Name, o.Name), cmp.Compare(t.Revision, o.Revision))
}

// mayUse is whether the template may use the node now.
func (t *template) mayUse(n *node) bool {
	allowed, known := n.allowed[t]
	if !known {
		allowed = t.allow(&n.Node)
		n.allowed[t] = allowed
	}
	return allowed
}
