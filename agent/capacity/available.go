package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// unavailable returns why the member can't run a template even with free capacity, and ""
// if it can.
func (m *Model) unavailable(t *template) (reason, message string) {
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
	return m.unavailableNodes(t)
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
// full nodes count as able to.
func (m *Model) unavailableNodes(t *template) (reason, message string) {
	var selected, inTopology, suitable bool
	taint := ""
	largest := Resources{}
	for _, n := range m.nodes {
		if !t.selects(&n.Node) {
			continue
		}
		selected = true
		if !t.matchTopology(&n.Node) {
			continue
		}
		inTopology = true
		if found := untolerated(n.Taints, t.tolerations, true); found != nil {
			if name := found.ToString(); taint == "" || name < taint {
				taint = name
			}
			continue
		}
		if t.perPod.timesIn(n.Allocatable) > 0 {
			return "", ""
		}
		suitable = true
		largest.raise(n.Allocatable)
	}
	switch {
	case !selected:
		return v1alpha1.UnavailableNode, noNode(t.selector)
	case !inTopology && t.StorageClassName == "":
		return v1alpha1.UnavailableNode, "no matching node is in a topology of the default storage class"
	case !inTopology:
		return v1alpha1.UnavailableNode, fmt.Sprintf("no matching node is in a topology of storage class %q", t.StorageClassName)
	case !suitable:
		return v1alpha1.UnavailableNode, "every matching node has a taint that the template does not tolerate, such as " + taint
	}
	if short := shortOf(t.requested, largest, "the largest node has"); short != "" {
		return v1alpha1.UnavailableResource, "no node has enough " + short
	}
	return v1alpha1.UnavailableResource, "no single node is large enough for all requests"
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
