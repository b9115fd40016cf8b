package v1alpha1

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultEphemeralStorage is the disk space of a desktop for which neither the
// session nor its template names any. It holds for the desktop's root file system,
// /tmp and logs together.
func DefaultEphemeralStorage() resource.Quantity { return resource.MustParse("4Gi") }

// ZeroIsNoLimit reports whether a kubelet takes zero of a resource for no limit. It
// does of cpu, memory and disk space; zero devices are none.
func ZeroIsNoLimit(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return false
}

// WithoutLimit returns the first resource, by name, of which the list has zero or
// less and a kubelet would set no limit; empty if there is none.
func WithoutLimit(list corev1.ResourceList) corev1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; q.Sign() <= 0 && ZeroIsNoLimit(name) {
			return name
		}
	}
	return ""
}

// For returns the resources of a session that asks for some: what it asks for, else
// the default, else the maximum where zero would be no limit. Disk space is always
// among them.
func (t *TemplateResources) For(asked corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourceEphemeralStorage: DefaultEphemeralStorage()}
	for name, q := range t.Max {
		if ZeroIsNoLimit(name) {
			out[name] = q.DeepCopy()
		}
	}
	for _, list := range []corev1.ResourceList{t.Default, asked} {
		for name, q := range list {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

// AmountsOf returns the amounts of a resource list, rounded up: of cpu in milli-units, of
// everything else in units (bytes, devices).
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

// AmountText returns an amount as AmountsOf counts it, for messages.
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
