package placement

import (
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Resources are amounts by name: cpu in milli-units, everything else in units (bytes,
// devices). A session implicitly requests one of "pods".
type Resources map[corev1.ResourceName]int64

// ResourcesOf converts a Kubernetes resource list, rounding up.
func ResourcesOf(list corev1.ResourceList) Resources { return v1alpha1.AmountsOf(list) }

// Amounts are Resources, sorted by name, in a third of the memory of a map: the hub has them for each
// group of nodes of each member.
type Amounts []Amount

// Amount is that of one resource.
type Amount struct {
	Name  corev1.ResourceName
	Value int64
}

// Amounts returns the same as Amounts.
func (r Resources) Amounts() Amounts {
	out := make(Amounts, 0, len(r))
	for name, amount := range r {
		out = append(out, Amount{name, amount})
	}
	slices.SortFunc(out, func(a, b Amount) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return out
}

// Of returns the amount of a resource, 0 if there is none.
func (a Amounts) Of(name corev1.ResourceName) int64 {
	for i := range a {
		if a[i].Name == name {
			return a[i].Value
		}
	}
	return 0
}

// withoutLimit returns the first resource, by name, with a request of zero for which a
// kubelet would set no limit; empty if there is none.
func (r Resources) withoutLimit() corev1.ResourceName {
	found := corev1.ResourceName("")
	for name, amount := range r {
		if amount <= 0 && v1alpha1.ZeroIsNoLimit(name) && (found == "" || name < found) {
			found = name
		}
	}
	return found
}

// need is the amount of one resource that a shape requests; it is positive.
type need struct {
	name   corev1.ResourceName
	amount int64
}

// shape is a request for resources in canonical form: needs sorted by name,
// none of them zero, one of "pods" always among them.
type shape struct {
	key   string
	needs []need
}

func newShape(r Resources) *shape {
	needs := make([]need, 0, len(r)+1)
	needs = append(needs, need{corev1.ResourcePods, 1})
	for name, amount := range r {
		if amount > 0 && name != corev1.ResourcePods {
			needs = append(needs, need{name, amount})
		}
	}
	slices.SortFunc(needs, func(a, b need) int { return strings.Compare(string(a.name), string(b.name)) })
	return &shape{key: shapeKey(needs), needs: needs}
}

func shapeKey(needs []need) string {
	b := make([]byte, 0, 64)
	for _, n := range needs {
		b = append(b, n.name...)
		b = append(b, '=')
		b = strconv.AppendInt(b, n.amount, 10)
		b = append(b, ';')
	}
	return string(b)
}

// fitsOn returns how many times the shape fits into a node's free resources.
func (s *shape) fitsOn(free Amounts) int64 {
	least := int64(math.MaxInt64)
	for _, n := range s.needs {
		least = min(least, max(free.Of(n.name), 0)/n.amount)
	}
	return least
}

// slotsIn returns how many times the shape fits into the buckets, node by node.
func (s *shape) slotsIn(buckets []Bucket) int64 {
	var slots int64
	for _, b := range buckets {
		slots += int64(max(b.Nodes, 0)) * s.fitsOn(b.Free)
	}
	return slots
}

// costIn returns the most slots of shape q that one reservation of shape s can cost,
// wherever it lands. A node with free resources f has, after s, at least as much left as
// after k times q, where k is the largest ratio of s to q over the resources of q; so it
// loses at most k of its slots. Equal shapes cost exactly one.
func (s *shape) costIn(q *shape) int64 {
	cost := int64(1) // the Pod itself
	for _, n := range q.needs {
		if taken := s.amount(n.name); taken > 0 {
			cost = max(cost, (taken+n.amount-1)/n.amount)
		}
	}
	return cost
}

func (s *shape) amount(name corev1.ResourceName) int64 {
	for _, n := range s.needs {
		if n.name == name {
			return n.amount
		}
	}
	return 0
}
