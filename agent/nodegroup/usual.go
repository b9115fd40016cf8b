package nodegroup

import (
	"math"
	"slices"
	"time"
)

// measured is how many of the last times count, fewest how many are needed.
const measured, fewest = 20, 3

// usualStep is what a usual time is rounded up to, and usualChange the share by which it must differ from
// what was reported, so that reports do not change with every node.
const (
	usualStep   = 5 * time.Second
	usualChange = 0.2
)

// usual is how long nodes of a group took: from a Pod's creation until a new node had it.
type usual struct {
	took     []time.Duration
	reported time.Duration
}

func (u *usual) add(took time.Duration) {
	u.took = append(u.took, took)
	if len(u.took) > measured {
		u.took = slices.Delete(u.took, 0, 1)
	}
}

// time returns the 90th percentile, or what was declared before there are enough.
func (u *usual) time(declared time.Duration) time.Duration {
	if len(u.took) < fewest {
		return declared
	}
	sorted := slices.Sorted(slices.Values(u.took))
	p90 := sorted[(len(sorted)*9+9)/10-1]
	rounded := (p90 + usualStep - 1) / usualStep * usualStep
	if u.reported == 0 || math.Abs(float64(rounded-u.reported)) > usualChange*float64(u.reported) {
		u.reported = rounded
	}
	return u.reported
}

// Scheduled records that a Pod that was created at one time was bound to a node at another. It counts if
// the node is younger than the Pod: the Pod has waited for it.
func (t *Tracker) Scheduled(node string, created, bound time.Time) {
	n, ok := t.nodes[node]
	if !ok || !n.Created.After(created) {
		return
	}
	for _, g := range t.groups {
		if g.has(&n) {
			g.usual.add(bound.Sub(created))
			return
		}
	}
}
