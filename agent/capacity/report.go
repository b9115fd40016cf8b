package capacity

import (
	"math"
	"slices"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Report returns a capacity report without a number. Its cost depends on the numbers of
// nodes, templates and unbound Pods, not on that of bound Pods.
func (m *Model) Report() *fleetv1.CapacityReport {
	index := indexNodes(m)
	r := &fleetv1.CapacityReport{
		AdmittedNamespaces: slices.Clone(m.namespaces),
		PodSecurity:        &fleetv1.PodSecurity{NotEnforced: slices.Clone(m.notEnforced)},
		Assignments:        int32(len(m.assignments)),
	}
	for _, n := range m.nodes {
		if n.acceptsSessions(m.templates) && !m.growth.holds(n.Name) {
			r.Nodes++
		}
	}
	var lists bucketLists
	for _, t := range m.templates {
		r.Templates = append(r.Templates, t.report(m, index, &lists))
	}
	if m.growth != nil {
		r.NodeGroups = statusesOf(m.growth.reported())
	}
	fillBuffers(m, index.assumed)
	r.Buffers = slices.Clone(m.buffers.states)
	return r
}

// bucketLists are the lists of buckets of a report: templates that may use the same nodes share
// one, so that a report costs what the member has, and not that for each template.
type bucketLists []bucketList

type bucketList struct {
	nodes  []counted
	future futureNodes
	// owner is the template that has the list.
	owner string
}

// share returns the template whose list has one bucket for each of these, "" if that becomes the
// template with this key.
func (l *bucketLists) share(nodes []counted, future futureNodes, key string) (owner string) {
	if len(nodes)+future.count() == 0 || len(nodes) > maxBuckets || future.count() > maxBuckets {
		return ""
	}
	for _, known := range *l {
		if slices.Equal(known.nodes, nodes) && known.future.equal(&future) {
			return known.owner
		}
	}
	*l = append(*l, bucketList{nodes, future, key})
	return ""
}

func (n *node) acceptsSessions(templates []*template) bool {
	return n.Open && (untolerated(n.Taints, nil, false) == nil ||
		slices.ContainsFunc(templates, func(t *template) bool { return t.mayUse(n, len(templates)) }))
}

func (t *template) report(m *Model, index *nodeIndex, lists *bucketLists) *fleetv1.TemplateCapacity {
	out := &fleetv1.TemplateCapacity{Name: t.Name, Revision: t.Revision}
	if out.Reason, out.Message = t.unavailable(m); out.Reason != "" {
		return out
	}
	out.Available = true
	if len(t.overhead) > 0 {
		out.Overhead = t.overhead.wire()
	}
	nodes, withImage := index.usable(t)
	out.ImageNodes = withImage
	buckets := bucketsOf(nodes, t.perPod)
	var slots int64
	for _, b := range buckets {
		slots += int64(b.Nodes) * t.perPod.timesIn(b.Free)
	}
	out.Slots = int32(min(slots, math.MaxInt32))
	future := index.future(t)
	out.GrowableSlots = slotsOn(future.growable, t.perPod)
	if out.BucketsOf = lists.share(nodes, future, convert.TemplateRef(t.Name, t.Revision)); out.BucketsOf != "" {
		return out
	}
	for _, b := range buckets {
		out.Buckets = append(out.Buckets, &fleetv1.Bucket{Nodes: b.Nodes, Free: b.Free.wire()})
	}
	out.Provisioning, out.Growable = wireBuckets(future.provisioning, t.perPod), wireBuckets(future.growable, t.perPod)
	return out
}

// Unschedulable returns why an assignment that is about to be stored fits on no node, and
// "" if it does or needs no capacity: its session is in the member already, or no Pod will
// be created. Unbound Pods do not count, since the hub has reports and reservations of
// them, but not of what other Pods use since the last report.
//
// One that may be placed where a node must be added first also fits on a node that is being
// added, and on one that a node group may add.
func (m *Model) Unschedulable(a Assignment) string {
	if a.Idle || m.sessions[a.Session] != nil {
		return ""
	}
	allowed := m.constraintsOf(a.PodSpec)
	requested := a.Resources.ofPod().plus(m.runtimeClasses[a.RuntimeClass].Overhead)
	demand := requested.demand()
	usable := 0
	largest := Resources{}
	for _, n := range m.nodes {
		if !allowed.allow(&n.Node) || m.growth.holds(n.Name) {
			continue
		}
		usable++
		free := n.freeAfter(m.used[n.Name])
		if demand.timesIn(free) > 0 {
			return ""
		}
		largest.raise(free)
	}
	if a.MayAddNode && m.mayAddNode(&allowed, demand, a.class()) {
		return ""
	}
	if usable == 0 {
		return "no node that the desktop may use is schedulable"
	}
	if short := shortOf(requested, largest, "the most free on a node is"); short != "" {
		return "no node has enough free capacity: " + short
	}
	return "no single node has free capacity for all requests"
}

// Refuses returns why an assignment must not be stored, and "" if it may be, or the
// watcher has not synced yet.
func (w *Watcher) Refuses(a *v1alpha1.SessionAssignment) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return ""
	}
	of := AssignmentOf(a)
	of.MayAddNode = a.MayAddNode
	return w.model.Unschedulable(of)
}
