package capacity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trimmed is what an informer keeps of an object: its identity, and the part that the
// model needs. A whole Pod is kilobytes even where nearly all of it is empty, and a
// member has tens of thousands of them.
type trimmed[T any] struct {
	metav1.ObjectMeta
	counts T
}

// trimNode reduces a node to what NodeOf reads.
func trimNode(in any) (any, error) {
	n, ok := in.(*corev1.Node)
	if !ok {
		return in, nil // trimmed already
	}
	return &trimmed[Node]{trimMeta(&n.ObjectMeta), NodeOf(n)}, nil
}

// trimPod reduces a Pod to what PodOf reads, with its resources added up.
func trimPod(in any) (any, error) {
	p, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil // trimmed already
	}
	return &trimmed[Pod]{trimMeta(&p.ObjectMeta), PodOf(p)}, nil
}

// trimObject removes what is never read of the smaller kinds.
func trimObject(in any) (any, error) {
	if o, ok := in.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return in, nil
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}
