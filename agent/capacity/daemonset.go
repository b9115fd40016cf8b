package capacity

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
)

// DaemonSet is the part of a DaemonSet that decides what its Pods use of each node.
type DaemonSet struct {
	UID types.UID
	// Resources of one Pod, without the overhead of the runtime class in PodSpec.
	Resources Resources
	PodSpec
}

// DaemonSetOf reads a DaemonSet.
func DaemonSetOf(d *appsv1.DaemonSet) DaemonSet {
	spec := &d.Spec.Template.Spec
	out := DaemonSet{
		UID: d.UID, Resources: PodResources(spec),
		PodSpec: PodSpec{NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations},
	}
	if spec.RuntimeClassName != nil && spec.Overhead == nil {
		out.RuntimeClass = *spec.RuntimeClassName
	}
	return out
}

// setByKubelets are labels that every node has, whether or not a node group declares them.
var setByKubelets = []string{
	corev1.LabelOSStable, corev1.LabelArchStable, corev1.LabelHostname, corev1.LabelInstanceTypeStable,
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// daemons returns what the Pods of DaemonSets use of a node of a shape. Affinity is ignored, and a label of
// each node whose value is not known matches: both err to less free capacity.
func (g *growth) daemons(m *Model, shape *nodegroup.Shape) Resources {
	out := Resources{}
	for _, d := range g.daemonSets {
		c := m.constraintsOf(d.PodSpec)
		if untolerated(shape.Taints, c.tolerations, true) != nil || !mayMatch(c.selector, shape) {
			continue
		}
		out.add(d.Resources.ofPod().plus(m.runtimeClasses[d.RuntimeClass].Overhead), 1)
	}
	return out
}

func mayMatch(selector map[string]string, shape *nodegroup.Shape) bool {
	for key, value := range selector {
		if !shape.Admits(key, value) && (shape.Names(key) || !slices.Contains(setByKubelets, key)) {
			return false
		}
	}
	return true
}
