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
}

// Report says what room there is. Its cost grows with the number of nodes and
// templates, not with that of Pods.
func (m *Model) Report() Report {
	settled := m.settle()
	r := Report{
		AdmittedNamespaces: slices.Clone(m.namespaces),
		Assignments:        int32(len(m.assignments)),
	}
	for _, n := range m.nodes {
		if m.takesSessions(n) {
			r.Nodes++
		}
	}
	for _, t := range m.templates {
		r.Templates = append(r.Templates, m.judge(t, settled))
	}
	return r
}

func (m *Model) takesSessions(n *node) bool {
	return n.Open && (untolerated(n.Taints, nil, false) == nil ||
		slices.ContainsFunc(m.templates, func(t *template) bool { return t.mayUse(n) }))
}

func (m *Model) judge(t *template, settled map[string]Resources) TemplateReport {
	out := TemplateReport{Name: t.Name, Revision: t.Revision}
	if out.Reason, out.Message = m.unavailable(t); out.Reason != "" {
		return out
	}
	out.Available = true
	groups := map[string]counted{}
	for _, n := range m.nodes {
		if !t.mayUse(n) {
			continue
		}
		v := m.rounded(n, settled)
		c := groups[v.key]
		groups[v.key] = counted{v, c.nodes + 1}
	}
	out.Buckets = bucketsOf(groups, t.perPod)
	var slots int64
	for _, b := range out.Buckets {
		slots += int64(b.Nodes) * t.perPod.timesIn(b.Free)
	}
	out.Slots = int32(min(slots, math.MaxInt32))
	return out
}

// rounded is what a node has left once those not bound yet have landed.
func (m *Model) rounded(n *node, settled map[string]Resources) *vector {
	if free, ok := settled[n.Name]; ok {
		return newVector(free)
	}
	if n.rounded == nil {
		n.rounded = newVector(m.left(n))
	}
	return n.rounded
}

// settle lands what is not bound yet, in thought, on the node with the most
// room for it, as kube-scheduler would by default. It returns what is left on
// the nodes that it used. What fits nowhere takes nothing: it waits as it is.
func (m *Model) settle() map[string]Resources {
	settled := map[string]Resources{}
	for _, k := range kindsOf(m.unbound) {
		k.land(m, settled)
	}
	return settled
}
