package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// member is a cluster with its agent.
type member struct {
	*run
	index int
	name  string
	uid   types.UID
	nodes []*node
	model *capacity.Model

	// copies are its assignments by session; ended is the last epoch of each session
	// that it has stopped.
	copies map[*session]*copied
	ended  map[*session]int64
	// pending are Pods without a node, the oldest first.
	pending []*pod

	// sequence is that of the last report; reporting is true while one is due.
	sequence  uint64
	reporting bool
	// losses counts those that cut it off now; spell grows with each loss and return.
	losses, spell int
}

// copied is a session's assignment in a member, and its Pod.
type copied struct {
	session     *session
	epoch       int64
	countedFrom uint64
	pod         *pod
	// ran is true once it had a node under this epoch.
	ran bool
	// left of its running time when it last got a node, which was at since.
	left  time.Duration
	since time.Duration
}

func newMember(r *run, index int) *member {
	name := r.trace.Members[index].Name
	m := &member{
		run: r, index: index, name: name, uid: types.UID(name), model: capacity.NewModel(restriction.Defaults()),
		copies: map[*session]*copied{}, ended: map[*session]int64{},
	}
	m.model.SetIngressClasses(capacity.Classes{Default: true})
	m.model.SetAdmittedNamespaces(r.namespaces())
	m.model.SetTemplates([]*fleetv1.TemplateRequirements{requirementsOf(desk, deskSize), requirementsOf(workstation, workstationSize)})
	for _, n := range r.trace.Nodes {
		if n.Member == name {
			m.addNode(n)
		}
	}
	return m
}

// receive handles a message of the hub a delay later, unless the member is cut off then.
func (m *member) receive(do func()) {
	m.after(m.options.Link, func() {
		if m.losses == 0 {
			do()
		}
	})
}

// send sends a message to the hub, with the same delay.
func (m *member) send(do func()) { m.receive(do) }

// assign stores or refuses an assignment.
func (m *member) assign(s *session, epoch int64) {
	if c := m.copies[s]; c != nil && c.epoch >= epoch || m.ended[s] >= epoch {
		return
	}
	if !m.hasCapacity(s) {
		sequence := m.sequence
		m.send(func() { m.hub.refusedBy(m, s, epoch, sequence) })
		return
	}
	c := &copied{session: s, epoch: epoch, countedFrom: m.sequence + 1, left: s.left}
	m.copies[s] = c
	m.model.SetAssignment(capacity.Assignment{
		UID: "a-" + s.uid, Session: s.uid, Resources: capacity.Resources(s.resources), PodSpec: capacity.PodSpec{Tolerations: tolerations(s.Size)},
	})
	m.changed()
	m.send(func() { m.hub.stored(m, s, epoch, c.countedFrom) })
	m.makePod(c)
}

// hasCapacity reports whether the report that the member would send now has capacity for it.
func (m *member) hasCapacity(s *session) bool {
	report := m.model.Report()
	for _, t := range report.Templates {
		if t.Name != s.template.Name {
			continue
		}
		return slices.ContainsFunc(convert.BucketsOf(report, t), func(b *fleetv1.Bucket) bool { return fits(s.Size, b.Free) })
	}
	return false
}

// makePod creates the Pod of a copy Options.Schedule later.
func (m *member) makePod(c *copied) {
	c.pod = nil
	m.after(m.options.Schedule, func() {
		if m.copies[c.session] != c || c.pod != nil {
			return
		}
		c.pod = &pod{uid: m.newUID(), size: c.session.Size, copied: c}
		m.schedule(c.pod)
		if c.pod.node == nil && !c.ran {
			s, epoch := c.session, c.epoch
			m.after(unschedulableFor, func() {
				m.send(func() { m.hub.unschedulable(m, s, epoch, moveLeast) })
			})
		}
	})
}

// started runs a copy whose Pod has a node for the rest of its time.
func (m *member) started(c *copied) {
	s, p := c.session, c.pod
	c.ran, c.since = true, m.now
	if !s.hasNode {
		s.hasNode, s.landed = true, m.now
	}
	m.after(c.left, func() {
		if m.copies[s] == c && c.pod == p {
			m.stop(c)
		}
	})
}

// pendingAgain reports whether a session's Pod has no node, and never had one under
// this epoch.
func (m *member) pendingAgain(s *session, epoch int64) bool {
	c := m.copies[s]
	return c != nil && c.epoch == epoch && !c.ran
}

// leftOf returns how much of its running time a session had left at the last heartbeat.
func (m *member) leftOf(s *session, heartbeat time.Duration) time.Duration {
	c := m.copies[s]
	if c == nil || c.pod == nil || c.pod.node == nil || heartbeat < c.since {
		return s.left
	}
	return max(c.left-(heartbeat-c.since), time.Second)
}

// withdraw stops a session's epochs up to this one.
func (m *member) withdraw(s *session, epoch int64) {
	if c := m.copies[s]; c != nil && c.epoch <= epoch {
		m.stop(c)
		return
	}
	m.ended[s] = max(m.ended[s], epoch)
	m.send(func() { m.hub.stopped(m, s, epoch) })
}

// stop deletes a copy: its time is over, or the hub has withdrawn it.
func (m *member) stop(c *copied) {
	s, epoch := c.session, c.epoch
	delete(m.copies, s)
	m.ended[s] = epoch
	m.model.DeleteAssignment("a-" + s.uid)
	if c.pod != nil {
		m.remove(c.pod)
	}
	m.changed()
	m.send(func() { m.hub.stopped(m, s, epoch) })
}

// changed reports after the debounce, with all that changes until then.
func (m *member) changed() {
	if m.reporting {
		return
	}
	m.reporting = true
	m.after(m.options.Debounce, func() {
		m.reporting = false
		if m.losses > 0 {
			return // lose reports on its return
		}
		m.sequence++
		c := capacityOf(m.model.Report(), m.sequence)
		m.send(func() { m.hub.reported(m, c) })
	})
}

// capacityOf returns a report as the hub decodes it.
func capacityOf(r *fleetv1.CapacityReport, sequence uint64) *placement.Capacity {
	c := &placement.Capacity{
		Sequence: sequence, Nodes: r.Nodes, AdmittedNamespaces: placement.NewNamespaces(r.AdmittedNamespaces...),
		Templates: make(map[placement.TemplateKey]placement.TemplateCapacity, len(r.Templates)),
	}
	for _, t := range r.Templates {
		tc := placement.TemplateCapacity{Available: t.Available, Reason: t.Reason, Message: t.Message}
		for _, b := range convert.BucketsOf(r, t) {
			free := placement.Resources{}
			for name, amount := range b.Free {
				free[corev1.ResourceName(name)] = amount
			}
			tc.Buckets = append(tc.Buckets, placement.Bucket{Nodes: b.Nodes, Free: free.Amounts()})
		}
		c.Templates[placement.TemplateKey{Name: t.Name, Revision: t.Revision}] = tc
	}
	return c
}
