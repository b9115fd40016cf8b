package capacity

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// trimNode keeps of a node what NodeOf reads: a member of thousands of nodes
// must not fill the agent's memory with lists of images.
func trimNode(in any) (any, error) {
	n, ok := in.(*corev1.Node)
	if !ok {
		return in, nil
	}
	out := &corev1.Node{ObjectMeta: trimMeta(&n.ObjectMeta)}
	out.Labels = n.Labels
	out.Spec.Taints, out.Spec.Unschedulable = n.Spec.Taints, n.Spec.Unschedulable
	out.Status.Allocatable = n.Status.Allocatable
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out, nil
}

// trimPod keeps of a Pod what PodOf reads, its resources summed up.
func trimPod(in any) (any, error) {
	p, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	out := &corev1.Pod{ObjectMeta: trimMeta(&p.ObjectMeta)}
	if uid, ours := p.Labels[v1alpha1.LabelSessionUID]; ours {
		out.Labels = map[string]string{v1alpha1.LabelSessionUID: uid}
	}
	out.Spec.NodeName = p.Spec.NodeName
	if p.Spec.NodeName == "" {
		out.Spec.NodeSelector, out.Spec.Tolerations = p.Spec.NodeSelector, p.Spec.Tolerations
	}
	out.Status.Phase = p.Status.Phase
	out.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: listOf(PodResources(&p.Spec))}}}
	return out, nil
}

// trimObject drops what nobody here reads of the smaller kinds.
func trimObject(in any) (any, error) {
	if o, ok := in.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return in, nil
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

// listOf is the inverse of ResourcesOf.
func listOf(r Resources) corev1.ResourceList {
	if len(r) == 0 {
		return nil
	}
	out := make(corev1.ResourceList, len(r))
	for name, amount := range r {
		if name == corev1.ResourceCPU {
			out[name] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		} else {
			out[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return out
}
