package capacity

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resourcesFromWire reads the resources of a template.
func resourcesFromWire(quantities map[string]string) (Resources, error) {
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(quantities)) {
		q, err := resource.ParseQuantity(quantities[name])
		if err != nil {
			return nil, fmt.Errorf("the template requests %s %q, which is not a quantity", name, quantities[name])
		}
		list[corev1.ResourceName(name)] = q
	}
	return ResourcesOf(list), nil
}

func (r Resources) wire() map[string]int64 {
	out := make(map[string]int64, len(r))
	for name, amount := range r {
		out[string(name)] = amount
	}
	return out
}
