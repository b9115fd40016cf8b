package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// unavailable returns why the member can't run a template even with free capacity, and ""
// if it can.
func (t *template) unavailable(m *Model) (reason, message string) {
	switch {
	case t.problem != "":
		return v1alpha1.UnavailableResource, t.problem
	case t.notAllowed != "":
		return v1alpha1.UnavailableNotAllowed, t.notAllowed
	case t.Home && !m.storageClasses.has(t.StorageClassName):
		return v1alpha1.UnavailableStorageClass, missingClass("storage", t.StorageClassName)
	case !m.ingressClasses.has(t.IngressClassName):
		return v1alpha1.UnavailableIngressClass, missingClass("ingress", t.IngressClassName)
	}
	if _, ok := m.runtimeClasses[t.RuntimeClassName]; t.RuntimeClassName != "" && !ok {
		return v1alpha1.UnavailableRuntimeClass, missingClass("runtime", t.RuntimeClassName)
	}
	if name := t.GetPriorityClassName(); name != "" && !m.priorityClasses.Has(name) {
		return v1alpha1.UnavailablePriorityClass, missingClass("priority", name)
	}
	return t.unavailableNodes(m)
}

func (c Classes) has(name string) bool {
	if name == "" {
		return c.Default
	}
	return c.Names[name]
}

func missingClass(kind, name string) string {
	if name == "" {
		return fmt.Sprintf("the member has no default %s class, and the template names none: set one of them", kind)
	}
	return fmt.Sprintf("the member has no %s class %q", kind, name)
}

// unavailableNodes returns why no node can ever run the template. Cordoned, not ready and
// full nodes count as able to, and so do those that a node group may have within its limits.
func (t *template) unavailableNodes(m *Model) (reason, message string) {
	found := survey{largest: Resources{}}
	for _, n := range m.nodes {
		if !t.selects(&n.Node) {
			continue
		}
		found.selected = true
		if t.matchTopology(&n.Node) && found.suits(t, n.Taints, n.Allocatable) {
			return "", ""
		}
	}
	if found.addGroups(t, m.growth) {
		return "", ""
	}
	switch {
	case !found.selected:
		return v1alpha1.UnavailableNode, noNode(t.selector)
	case !found.inTopology && t.StorageClassName == "":
		return v1alpha1.UnavailableNode, "no matching node is in a topology of the default storage class"
	case !found.inTopology:
		return v1alpha1.UnavailableNode, fmt.Sprintf("no matching node is in a topology of storage class %q", t.StorageClassName)
	case !found.suitable:
		return v1alpha1.UnavailableNode, "every matching node has a taint that the template does not tolerate, such as " + found.taint
	}
	if short := shortOf(t.requested, found.largest, "the largest node has"); short != "" {
		return v1alpha1.UnavailableResource, "no node has enough " + short
	}
	return v1alpha1.UnavailableResource, "no single node is large enough for all requests"
}

// survey is which requirements of a template any node meets.
type survey struct {
	selected, inTopology, suitable bool
	// taint that is not tolerated, the first by name.
	taint   string
	largest Resources
}

// suits reports whether a node with a suitable topology can run the template.
func (s *survey) suits(t *template, taints []corev1.Taint, allocatable Resources) bool {
	s.inTopology = true
	if found := untolerated(taints, t.tolerations, true); found != nil {
		if name := found.ToString(); s.taint == "" || name < s.taint {
			s.taint = name
		}
		return false
	}
	if t.perPod.timesIn(allocatable) > 0 {
		return true
	}
	s.suitable = true
	s.largest.raise(allocatable)
	return false
}

// addGroups adds the nodes that node groups may have, and reports whether one can run the template.
func (s *survey) addGroups(t *template, g *growth) bool {
	if g == nil {
		return false
	}
	for _, f := range g.groups {
		has := labelsOf(f.Shape, nil)
		if !f.Possible && f.Growable == 0 && len(f.Provisioning) == 0 || !t.selectsBy(has) {
			continue
		}
		s.selected = true
		if !t.matchTopologyBy(has) {
			continue
		}
		free := f.free
		if f.probes(t.perPod) {
			free = t.requested
		}
		if s.suits(t, f.Shape.Taints, free) {
			return true
		}
	}
	return false
}

func noNode(selector map[string]string) string {
	if len(selector) == 0 {
		return "the member has no node"
	}
	return "no node has the labels " + strings.ReplaceAll(labels.FormatLabels(selector), ",", ", ")
}

// shortOf returns which requests exceed the largest amounts, and "" if none does.
func shortOf(requested, largest Resources, largestName string) string {
	var short []string
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		if largest[name] < requested[name] {
			short = append(short, fmt.Sprintf("%s (requested %s, %s %s)", name, v1alpha1.AmountText(name, requested[name]), largestName, v1alpha1.AmountText(name, largest[name])))
		}
	}
	return strings.Join(short, " and ")
}
