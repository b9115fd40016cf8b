package capacity

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// futureNodes are the nodes that a template may use once they are usable.
type futureNodes struct {
	provisioning, growable []futureCounted
}

// futureCounted is a vector and the number of nodes of a group that have it free.
type futureCounted struct {
	group string
	*vector
	nodes int32
}

func (f *futureNodes) count() int { return len(f.provisioning) + len(f.growable) }

func (f *futureNodes) equal(o *futureNodes) bool {
	return slices.Equal(f.provisioning, o.provisioning) && slices.Equal(f.growable, o.growable)
}

// future returns the nodes that a template may use once they are usable, without what unbound Pods need.
func (l *nodeIndex) future(t *template) (out futureNodes) {
	for _, f := range l.groups {
		if !t.admits(f.Shape, nil) {
			continue
		}
		provisioning, growable := map[*vector]int32{}, map[*vector]int32{}
		for _, n := range f.provisioning {
			if n.labels == nil || t.admits(f.Shape, n.labels) {
				l.add(provisioning, n.free, 1)
			}
		}
		if !f.vetoes(t.class) {
			for _, n := range f.opened {
				l.add(growable, n.free, 1)
			}
			l.addGrowable(growable, f, t)
			if len(growable) == 0 && f.Possible && f.free[corev1.ResourcePods] > 0 {
				growable[l.intern(newVector(f.free))] = 0 // which shows that the group would serve the template
			}
		}
		out.provisioning = appendCounted(out.provisioning, f.Name, provisioning)
		out.growable = appendCounted(out.growable, f.Name, growable)
	}
	return out
}

// addGrowable adds the nodes that a group may add. If none is known to be large enough, one session may try: its
// node has exactly what the template requests.
func (l *nodeIndex) addGrowable(counts map[*vector]int32, f *futureGroup, t *template) {
	left := f.growable
	if left > 0 && !f.probed && f.probes(t.perPod) {
		counts[l.intern(&vector{key: "probe " + t.requested.key(), free: t.requested})]++
		left--
	}
	l.add(counts, f.free, left)
}

// add counts nodes with so much free. A node of unknown size, or that is full, has nothing to count.
func (l *nodeIndex) add(counts map[*vector]int32, free Resources, nodes int32) {
	if nodes > 0 && free[corev1.ResourcePods] > 0 {
		counts[l.intern(newVector(free))] += nodes
	}
}

// intern returns the same vector for the same capacity, so that templates can share buckets.
func (l *nodeIndex) intern(v *vector) *vector {
	if known := l.futures[v.key]; known != nil {
		return known
	}
	l.futures[v.key] = v
	return v
}

func appendCounted(out []futureCounted, group string, counts map[*vector]int32) []futureCounted {
	first := len(out)
	for v, nodes := range counts {
		out = append(out, futureCounted{group, v, nodes})
	}
	slices.SortFunc(out[first:], func(a, b futureCounted) int { return cmp.Compare(a.key, b.key) })
	return out
}

// slotsOn returns how many sessions of the default size fit.
func slotsOn(nodes []futureCounted, perPod demand) int32 {
	var slots int64
	for _, c := range nodes {
		slots += int64(c.nodes) * perPod.timesIn(c.free)
	}
	return int32(min(slots, math.MaxInt32))
}

// wireBuckets returns buckets of one kind of nodes, at most maxBuckets: if there are more, those of each group
// are merged as bucketsOf does.
func wireBuckets(nodes []futureCounted, perPod demand) (out []*fleetv1.Bucket) {
	groups := map[string][]counted{}
	for _, c := range nodes {
		groups[c.group] = append(groups[c.group], counted{c.vector, c.nodes})
	}
	most := maxBuckets
	if len(nodes) > maxBuckets {
		most = max(maxBuckets/len(groups), 1)
	}
	for i, c := range nodes {
		if i > 0 && nodes[i-1].group == c.group {
			continue
		}
		for _, b := range atMost(most, groups[c.group], perPod) {
			out = append(out, &fleetv1.Bucket{Nodes: b.Nodes, Free: b.Free.wire(), NodeGroup: c.group})
		}
	}
	return out
}
