package capacity

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Resources are amounts by name: cpu in milli-units, everything else in units
// (bytes, devices, pods).
type Resources map[corev1.ResourceName]int64

// ResourcesOf converts a Kubernetes resource list, rounding up.
func ResourcesOf(list corev1.ResourceList) Resources { return v1alpha1.AmountsOf(list) }

// ofPod returns what a Pod uses of its node: the resources and one of "pods".
func (r Resources) ofPod() Resources {
	out := maps.Clone(r)
	if out == nil {
		out = Resources{}
	}
	out[corev1.ResourcePods] = 1
	return out
}

func (r Resources) add(o Resources, sign int64) {
	for name, amount := range o {
		if sum := r[name] + sign*amount; sum != 0 {
			r[name] = sum
		} else {
			delete(r, name)
		}
	}
}

func (r Resources) raise(o Resources) {
	for name, amount := range o {
		r[name] = max(r[name], amount)
	}
}

// demand is Resources prepared for comparison with many nodes.
type demand []need

type need struct {
	name   corev1.ResourceName
	amount int64
}

// plus returns the sum of r and more; r is not changed.
func (r Resources) plus(more Resources) Resources {
	if len(more) == 0 {
		return r
	}
	out := maps.Clone(r)
	out.add(more, 1)
	return out
}

// minus returns r less o, which may leave negative amounts; r is not changed.
func (r Resources) minus(o Resources) Resources {
	out := maps.Clone(r)
	out.add(o, -1)
	return out
}

// without returns by how much r exceeds o.
func (r Resources) without(o Resources) Resources {
	out := Resources{}
	for name, amount := range r {
		if left := amount - o[name]; left > 0 {
			out[name] = left
		}
	}
	return out
}

// demand returns r as a demand, without zero amounts.
func (r Resources) demand() demand {
	out := make(demand, 0, len(r))
	for name, amount := range r {
		if amount > 0 {
			out = append(out, need{name, amount})
		}
	}
	return out
}

// timesIn returns how many times the demand fits into the free resources, and 0 for an
// empty demand.
func (d demand) timesIn(free Resources) int64 {
	least := int64(-1)
	for _, n := range d {
		if times := max(free[n.name], 0) / n.amount; least < 0 || times < least {
			least = times
		}
	}
	return max(least, 0)
}

// PodResources returns the requests of a Pod as kube-scheduler computes them: the sum of
// its containers and sidecars, or the largest init container with the sidecars started
// before it, whichever is more; Pod-level requests instead, if set; and the overhead of its
// runtime class.
func PodResources(spec *corev1.PodSpec) Resources {
	sum, sidecars, initial := Resources{}, Resources{}, Resources{}
	for i := range spec.Containers {
		sum.add(ResourcesOf(spec.Containers[i].Resources.Requests), 1)
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		requests := ResourcesOf(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sum.add(requests, 1)
			sidecars.add(requests, 1)
			initial.raise(sidecars)
			continue
		}
		requests.add(sidecars, 1)
		initial.raise(requests)
	}
	sum.raise(initial)
	if spec.Resources != nil {
		maps.Copy(sum, ResourcesOf(spec.Resources.Requests))
	}
	sum.add(ResourcesOf(spec.Overhead), 1)
	return sum
}
