package capacity

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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
