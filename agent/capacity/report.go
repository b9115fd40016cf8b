package capacity

import (
	"math"
	"slices"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Report is the free capacity of the member.
type Report struct {
	// Nodes that take sessions at all: open, and tolerated by a template.
	Nodes int32
	// AdmittedNamespaces, sorted.
	AdmittedNamespaces []string
	// NotEnforced are the admitted namespaces that do not enforce Pod Security, sorted.
	NotEnforced []string
	// Templates by name and revision.
	Templates []TemplateReport
	// Assignments that the member holds.
	Assignments int32
}

// TemplateReport is the free capacity for one template.
type TemplateReport struct {
	Name, Revision  string
	Available       bool
	Reason, Message string
	// Buckets of the nodes that it may use, if it is available.
	Buckets []Bucket
	// Slots of the default resources that fit now.
	Slots int32
	// ImageNodes that it may use have its image.
	ImageNodes int32
	// Overhead of each Pod besides the resources of the session.
	Overhead Resources
}

// Report computes the free capacity. Its cost grows with the numbers of nodes, templates
// and Pods without a node, not with that of bound Pods.
func (m *Model) Report() Report {
	index := m.indexNodes()
	r := Report{
		AdmittedNamespaces: slices.Clone(m.namespaces),
		NotEnforced:        slices.Clone(m.notEnforced),
		Assignments:        int32(len(m.assignments)),
	}
	for _, n := range m.nodes {
		if n.takesSessions(m.templates) {
			r.Nodes++
		}
	}
	for _, t := range m.templates {
		r.Templates = append(r.Templates, m.reportOf(t, index))
	}
	return r
}

func (n *node) takesSessions(templates []*template) bool {
	return n.Open && (untolerated(n.Taints, nil, false) == nil ||
		slices.ContainsFunc(templates, func(t *template) bool { return t.mayUse(n, len(templates)) }))
}

func (m *Model) reportOf(t *template, index *nodeIndex) TemplateReport {
	out := TemplateReport{Name: t.Name, Revision: t.Revision}
	if out.Reason, out.Message = m.unavailable(t); out.Reason != "" {
		return out
	}
	out.Available, out.Overhead = true, t.overhead
	nodes, withImage := index.usable(t)
	out.Buckets, out.ImageNodes = bucketsOf(nodes, t.perPod), withImage
	var slots int64
	for _, b := range out.Buckets {
		slots += int64(b.Nodes) * t.perPod.timesIn(b.Free)
	}
	out.Slots = int32(min(slots, math.MaxInt32))
	return out
}

// Lacks returns why an assignment that is about to be stored fits on no node, and "" if
// it does, or needs no capacity: its session is in the member already, or no Pod will be
// created. Pods without a node do not count: the hub has reports and reservations of
// these. What it can't know of is what others have used since the last report.
func (m *Model) Lacks(a Assignment) string {
	if a.Idle || m.sessions[a.Session] != nil {
		return ""
	}
	allowed := m.constraintsOf(a.podSpec())
	asked := a.Resources.ofPod().plus(m.runtimeClasses[a.RuntimeClass].Overhead)
	demand := asked.demand()
	usable := 0
	largest := Resources{}
	for _, n := range m.nodes {
		if !allowed.allow(&n.Node) {
			continue
		}
		usable++
		free := n.left(m.used[n.Name])
		if demand.timesIn(free) > 0 {
			return ""
		}
		largest.raise(free)
	}
	if usable == 0 {
		return "no node that the desktop may use is open to Pods"
	}
	if short := shortOf(asked, largest, "the most that is free on a node is"); short != "" {
		return "no node has enough free capacity: " + short
	}
	return "no single node has free capacity for all that is requested"
}

// Refuses returns why an assignment should not be stored, and "" if it may be, or nothing
// is known yet.
func (w *Watcher) Refuses(a *v1alpha1.SessionAssignment) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return ""
	}
	return w.model.Lacks(AssignmentOf(a))
}
