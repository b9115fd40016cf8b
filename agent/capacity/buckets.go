package capacity

import (
	"cmp"
	"maps"
	"slices"
)

// maxBuckets of a template in a report.
const maxBuckets = 256

// Bucket is a group of nodes with the same room left on each.
type Bucket struct {
	Nodes int32
	Free  Resources
}

// level is the vectors of which each holds the same number of sessions of the
// default size.
type level struct {
	slots   int64
	vectors []counted
}

type counted struct {
	*vector
	nodes int32
}

// bucketsOf groups nodes by what they have free. Where there are too many
// groups, those that hold the same number of sessions of the default size are
// merged down to what all of them have: room for the default size is exact as
// long as there are no more than maxBuckets different numbers, and never
// overstated for any size.
func bucketsOf(nodes map[string]counted, perPod Resources) []Bucket {
	levels := levelsOf(nodes, perPod)
	spare, crowd := maxBuckets-len(levels), len(nodes)-len(levels)
	var out []Bucket
	for _, l := range levels {
		share := 1
		if crowd > 0 {
			share += min(spare, crowd) * (len(l.vectors) - 1) / crowd
		}
		out = l.merge(share, out)
	}
	return out
}

func levelsOf(nodes map[string]counted, perPod Resources) []*level {
	byslots := map[int64]*level{}
	for _, c := range nodes {
		slots := perPod.timesIn(c.free)
		if byslots[slots] == nil {
			byslots[slots] = &level{slots: slots}
		}
		byslots[slots].vectors = append(byslots[slots].vectors, c)
	}
	levels := slices.SortedFunc(maps.Values(byslots), func(a, b *level) int { return cmp.Compare(a.slots, b.slots) })
	if extra := len(levels) - maxBuckets; extra > 0 {
		last := levels[maxBuckets-1]
		for _, l := range levels[maxBuckets:] {
			last.vectors = append(last.vectors, l.vectors...)
		}
		levels = levels[:maxBuckets]
	}
	for _, l := range levels {
		slices.SortFunc(l.vectors, func(a, b counted) int { return cmp.Compare(a.key, b.key) })
	}
	return levels
}

// merge neighbours until there are no more than n, and append them.
func (l *level) merge(n int, out []Bucket) []Bucket {
	per := (len(l.vectors) + n - 1) / n
	for chunk := range slices.Chunk(l.vectors, per) {
		b := chunk[0]
		for _, c := range chunk[1:] {
			b = counted{b.lower(c.vector), b.nodes + c.nodes}
		}
		out = append(out, Bucket{Nodes: b.nodes, Free: b.free})
	}
	return out
}
