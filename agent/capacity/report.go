package capacity

import (
	"math"
	"slices"
)

// Report is what room the member has.
type Report struct {
	// Nodes that take sessions at all: open, and not kept from every
	// template by taints.
	Nodes int32
	// AdmittedNamespaces, sorted.
	AdmittedNamespaces []string
	// NotEnforced are those of them that do not enforce Pod Security, sorted.
	NotEnforced []string
	// Templates by name and revision.
	Templates []TemplateReport
	// Assignments that the member holds.
	Assignments int32
}

// TemplateReport is what the member says of one template.
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
	// Overhead that each Pod takes besides what the session asks for.
	Overhead Resources
}

// Report says what room there is. Its cost grows with the numbers of nodes,
// of templates and of Pods not bound yet, not with that of bound Pods.
func (m *Model) Report() Report {
	landscape := m.survey()
	r := Report{
		AdmittedNamespaces: slices.Clone(m.namespaces),
		NotEnforced:        slices.Clone(m.notEnforced),
		Assignments:        int32(len(m.assignments)),
	}
	for _, n := range m.nodes {
		if m.takesSessions(n) {
			r.Nodes++
		}
	}
	for _, t := range m.templates {
		r.Templates = append(r.Templates, m.judge(t, landscape))
	}
	return r
}

func (m *Model) takesSessions(n *node) bool {
	return n.Open && (untolerated(n.Taints, nil, false) == nil ||
		slices.ContainsFunc(m.templates, func(t *template) bool { return t.mayUse(n, len(m.templates)) }))
}

func (m *Model) judge(t *template, l *landscape) TemplateReport {
	out := TemplateReport{Name: t.Name, Revision: t.Revision}
	if out.Reason, out.Message = m.unavailable(t); out.Reason != "" {
		return out
	}
	out.Available, out.Overhead = true, t.overhead
	nodes, withImage := l.usable(t)
	out.Buckets, out.ImageNodes = bucketsOf(nodes, t.perPod), withImage
	var slots int64
	for _, b := range out.Buckets {
		slots += int64(b.Nodes) * t.perPod.timesIn(b.Free)
	}
	out.Slots = int32(min(slots, math.MaxInt32))
	return out
}
