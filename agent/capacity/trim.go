package capacity

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// trimmed is what an informer keeps of an object: its identity, and the part that the model
// needs. A Pod has kilobytes, and a member tens of thousands of Pods.
type trimmed[T any] struct {
	metav1.ObjectMeta
	counts T
}

// trim returns a transformation that reduces an object to its identity and what read
// returns.
func trim[K metav1.Object, T any](read func(K) T) cache.TransformFunc {
	return func(in any) (any, error) {
		o, ok := in.(K)
		if !ok {
			return in, nil // trimmed already
		}
		identity := metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
		return &trimmed[T]{identity, read(o)}, nil
	}
}
