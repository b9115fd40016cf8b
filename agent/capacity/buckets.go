package capacity

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxBuckets is the most buckets of a template in a report.
const maxBuckets = 256

// Bucket is a group of nodes with the same free capacity on each.
type Bucket struct {
	Nodes int32
	Free  Resources
}

// counted is a vector and the number of nodes that have it free.
type counted struct {
	*vector
	nodes int32
}

// level has the vectors that hold the same number of sessions of the default size, ordered
// by key.
type level struct {
	slots   int64
	vectors []counted
}

// bucketsOf groups nodes, ordered by key, by their free capacity: in that order, whatever a
// template requires, unless there are too many. Then those that hold the same number of sessions of the default size are merged down to what
// all of them have: capacity for the default size is exact for up to maxBuckets different
// numbers, and never overstated for any size. The nodes with the most of a resource are not
// merged, so that the largest request that fits is known.
func bucketsOf(nodes []counted, perPod demand) []Bucket { return atMost(maxBuckets, nodes, perPod) }

// atMost is bucketsOf with another maximum.
func atMost(most int, nodes []counted, perPod demand) []Bucket {
	if len(nodes) <= most {
		out := make([]Bucket, 0, len(nodes))
		for _, c := range nodes {
			out = append(out, Bucket{Nodes: c.nodes, Free: c.free})
		}
		return out
	}
	levels := levelsOf(most, nodes, perPod)
	spare, surplus := most-len(levels), len(nodes)-len(levels)
	var out []Bucket
	if surplus > spare {
		out = keepLargest(levels, largestOf(nodes, perPod), spare)
		spare, surplus = spare-len(out), surplus-len(out)
	}
	for _, l := range levels {
		share := 1
		if surplus > 0 {
			share += min(spare, surplus) * (len(l.vectors) - 1) / surplus
		}
		out = l.merge(share, out)
	}
	return out
}

// largestOf returns the vector with the most of each requested resource, and of cpu and
// memory. Among equals it is the one that holds the most sessions.
func largestOf(nodes []counted, perPod demand) []*vector {
	names := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	for _, n := range perPod {
		if n.name != corev1.ResourcePods && !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	slices.Sort(names[2:])
	var out []*vector
	for _, name := range names {
		most := slices.MaxFunc(nodes, func(a, b counted) int {
			return cmp.Or(cmp.Compare(a.free[name], b.free[name]),
				cmp.Compare(perPod.timesIn(a.free), perPod.timesIn(b.free)), cmp.Compare(a.key, b.key))
		})
		if !slices.Contains(out, most.vector) {
			out = append(out, most.vector)
		}
	}
	return out
}

// keepLargest moves vectors from their levels to their own buckets, at most so many, and
// leaves no level empty.
func keepLargest(levels []*level, keep []*vector, most int) []Bucket {
	var out []Bucket
	for _, l := range levels {
		left := len(l.vectors)
		l.vectors = slices.DeleteFunc(l.vectors, func(c counted) bool {
			if len(out) == most || left == 1 || !slices.Contains(keep, c.vector) {
				return false
			}
			left--
			out = append(out, Bucket{Nodes: c.nodes, Free: c.free})
			return true
		})
	}
	return out
}

func levelsOf(most int, nodes []counted, perPod demand) []*level {
	bySlots := map[int64]*level{}
	for _, c := range nodes {
		slots := perPod.timesIn(c.free)
		l := bySlots[slots]
		if l == nil {
			l = &level{slots: slots}
			bySlots[slots] = l
		}
		l.vectors = append(l.vectors, c)
	}
	levels := slices.SortedFunc(maps.Values(bySlots), func(a, b *level) int { return cmp.Compare(a.slots, b.slots) })
	if len(levels) > most {
		last := levels[most-1]
		for _, l := range levels[most:] {
			last.vectors = append(last.vectors, l.vectors...)
		}
		levels = levels[:most]
	}
	return levels
}

// merge appends the level as at most n buckets, in which it merges neighbors.
func (l *level) merge(n int, out []Bucket) []Bucket {
	per := (len(l.vectors) + n - 1) / n
	for chunk := range slices.Chunk(l.vectors, per) {
		b := Bucket{Nodes: chunk[0].nodes, Free: chunk[0].free}
		if len(chunk) > 1 {
			b.Free = maps.Clone(b.Free)
		}
		for _, c := range chunk[1:] {
			b.Nodes += c.nodes
			b.Free.lower(c.free)
		}
		out = append(out, b)
	}
	return out
}

// lower reduces each amount of r to that of o.
func (r Resources) lower(o Resources) {
	for name, amount := range r {
		switch least := min(amount, o[name]); {
		case least <= 0:
			delete(r, name)
		case least < amount:
			r[name] = least
		}
	}
}

// Free amounts are rounded down to these steps, so that similar nodes form one bucket and
// a report does not change with every small Pod.
const (
	cpuStep     = 100            // milli-units
	memoryStep  = 64 << 20       // bytes
	storageStep = int64(1) << 30 // bytes
)

// vector is the free capacity of a node, rounded down, with a key for comparison.
type vector struct {
	key  string
	free Resources
	// index among the vectors of the last report.
	index int
}

func newVector(free Resources) *vector {
	rounded := make(Resources, len(free))
	for name, amount := range free {
		if amount = roundDown(name, amount); amount > 0 {
			rounded[name] = amount
		}
	}
	return &vector{key: rounded.key(), free: rounded}
}

func roundDown(name corev1.ResourceName, amount int64) int64 {
	step := int64(1)
	switch name {
	case corev1.ResourceCPU:
		step = cpuStep
	case corev1.ResourceMemory:
		step = memoryStep
	case corev1.ResourceEphemeralStorage:
		step = storageStep
	}
	return amount / step * step
}

// key orders vectors by cpu, then memory, then the others by name.
func (r Resources) key() string {
	var b strings.Builder
	write := func(name corev1.ResourceName) {
		amount := strconv.FormatInt(r[name], 10)
		b.WriteString(string(name))
		b.WriteByte('=')
		b.WriteByte('a' + byte(len(amount))) // longer numbers are larger
		b.WriteString(amount)
		b.WriteByte(';')
	}
	write(corev1.ResourceCPU)
	write(corev1.ResourceMemory)
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			write(name)
		}
	}
	return b.String()
}
