package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// unavailable returns why the member can't run a template, whatever its free capacity,
// and "" if it can.
func (m *Model) unavailable(t *template) (reason, message string) {
	switch {
	case t.Problem != "":
		return v1alpha1.UnavailableResource, t.Problem
	case t.notAllowed != "":
		return v1alpha1.UnavailableNotAllowed, t.notAllowed
	case t.Home && !m.storageClasses.has(t.StorageClass):
		return v1alpha1.UnavailableStorageClass, missingClass("storage", t.StorageClass)
	case !m.ingressClasses.has(t.IngressClass):
		return v1alpha1.UnavailableIngressClass, missingClass("ingress", t.IngressClass)
	}
	if _, ok := m.runtimeClasses[t.RuntimeClass]; t.RuntimeClass != "" && !ok {
		return v1alpha1.UnavailableRuntimeClass, missingClass("runtime", t.RuntimeClass)
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
		return fmt.Sprintf("the member has no default %s class, and the template names none", kind)
	}
	return fmt.Sprintf("the member has no %s class %q", kind, name)
}

// unavailableNodes returns why no node could ever run the template. A node that is
// cordoned, not Ready or full may yet.
func (m *Model) unavailableNodes(t *template) (reason, message string) {
	var selected, reached, suitable bool
	taint := ""
	largest := Resources{}
	for _, n := range m.nodes {
		if !t.selects(&n.Node) {
			continue
		}
		selected = true
		if !t.reaches(&n.Node) {
			continue
		}
		reached = true
		if in := untolerated(n.Taints, t.tolerations, true); in != nil {
			if name := in.ToString(); taint == "" || name < taint {
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
	case !reached && t.StorageClass == "":
		return v1alpha1.UnavailableNode, "no node that matches is where the default storage class makes volumes"
	case !reached:
		return v1alpha1.UnavailableNode, fmt.Sprintf("no node that matches is where storage class %q makes volumes", t.StorageClass)
	case !suitable:
		return v1alpha1.UnavailableNode, "every node that matches has a taint that the template does not tolerate, such as " + taint
	}
	if short := shortOf(t.Resources.ofPod().plus(t.overhead), largest, "the largest node has"); short != "" {
		return v1alpha1.UnavailableResource, "no node has enough " + short
	}
	return v1alpha1.UnavailableResource, "no single node is large enough in everything that is asked for"
}

func noNode(selector map[string]string) string {
	if len(selector) == 0 {
		return "the member has no node"
	}
	return "no node has the labels " + strings.ReplaceAll(labels.FormatLabels(selector), ",", ", ")
}

// shortOf returns what is missing of the resources that are asked for, and "" if nothing
// is.
func shortOf(asked, largest Resources, whose string) string {
	var short []string
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if largest[name] < asked[name] {
			short = append(short, fmt.Sprintf("%s (asked %s, %s %s)", name, v1alpha1.AmountText(name, asked[name]), whose, v1alpha1.AmountText(name, largest[name])))
		}
	}
	return strings.Join(short, " and ")
}
