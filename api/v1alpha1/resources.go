package v1alpha1

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultEphemeralStorage returns the disk space of a desktop if neither the session nor
// its template sets ephemeral-storage. It covers the root file system, /tmp and logs.
func DefaultEphemeralStorage() resource.Quantity { return resource.MustParse("4Gi") }

// ZeroIsNoLimit reports whether a kubelet treats zero of a resource as no limit, as it
// does for cpu, memory and ephemeral-storage. Zero devices are none.
func ZeroIsNoLimit(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return false
}

// WithoutLimit returns the first resource of the list, by name, for which a kubelet would
// set no limit because its quantity is zero or less; empty if there is none.
func WithoutLimit(list corev1.ResourceList) corev1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; q.Sign() <= 0 && ZeroIsNoLimit(name) {
			return name
		}
	}
	return ""
}

// For returns the resources of a session with the given requests: the request, else the
// default, else the maximum for resources that zero would not limit. It always includes
// ephemeral-storage.
func (t *TemplateResources) For(requested corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourceEphemeralStorage: DefaultEphemeralStorage()}
	for name, q := range t.Max {
		if ZeroIsNoLimit(name) {
			out[name] = q.DeepCopy()
		}
	}
	for _, list := range []corev1.ResourceList{t.Default, requested} {
		for name, q := range list {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

// AmountsOf returns the quantities of a resource list as integers, rounded up: cpu in
// millicores, everything else in units (bytes, devices).
func AmountsOf(list corev1.ResourceList) map[corev1.ResourceName]int64 {
	out := make(map[corev1.ResourceName]int64, len(list))
	for name, quantity := range list {
		if name == corev1.ResourceCPU {
			out[name] = quantity.MilliValue()
		} else {
			out[name] = quantity.Value()
		}
	}
	return out
}

// AmountText formats an amount of AmountsOf for messages.
func AmountText(name corev1.ResourceName, amount int64) string {
	switch name {
	case corev1.ResourceCPU:
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage:
		return resource.NewQuantity(amount, resource.BinarySI).String()
	default:
		return resource.NewQuantity(amount, resource.DecimalSI).String()
	}
}
