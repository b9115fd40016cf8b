package capacity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kept is what an informer keeps of an object: what tells it from others, and
// what counts of it. A Pod as Kubernetes has it is kilobytes even where nearly
// all of it is empty; a member has tens of thousands of them.
type kept[T any] struct {
	metav1.ObjectMeta
	counts T
}

// trimNode keeps of a node what NodeOf reads.
func trimNode(in any) (any, error) {
	n, ok := in.(*corev1.Node)
	if !ok {
		return in, nil // kept already
	}
	return &kept[Node]{trimMeta(&n.ObjectMeta), NodeOf(n)}, nil
}

// trimPod keeps of a Pod what PodOf reads, its resources summed up.
func trimPod(in any) (any, error) {
	p, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil // kept already
	}
	return &kept[Pod]{trimMeta(&p.ObjectMeta), PodOf(p)}, nil
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
